/** The root of a step-ca known only by its hash, fetched as `step ca bootstrap` does. */
import { createHash } from 'node:crypto'
import { type CAContext, derToPem, pemToDer, type TlsMaterial } from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { HttpsJson, type HttpsJsonOptions } from '../../transport/https-json.ts'

/**
 * `tls()` of a context: fetches the root on first use, checks it, and keeps it. `hash`: the SHA-256 of the root's DER, in
 * hexadecimal digits. `signal` ends the fetching.
 */
export function pinnedRoot(
  connection: HttpsJsonOptions,
  hash: string,
  signal: AbortSignal,
): NonNullable<CAContext['tls']> {
  const fingerprint = hash.replaceAll(':', '').toLowerCase()
  let fetched: Promise<TlsMaterial> | undefined
  return () => {
    fetched ??= fetchRoot(connection, fingerprint, signal).catch((error: unknown) => {
      fetched = undefined
      throw error
    })
    return fetched
  }
}

async function fetchRoot(connection: HttpsJsonOptions, fingerprint: string, signal: AbortSignal): Promise<TlsMaterial> {
  const { address } = connection
  // The server is not verified: only the certificate with that hash is accepted.
  await using client = new HttpsJson({ ...connection, unverified: true })
  const action = `get the root with the fingerprint ${fingerprint} from step-ca at ${address}`
  const { status, json } = await client.request({ action, path: `root/${fingerprint}`, signal })
  const answer = json?.['ca']
  const roots = typeof answer === 'string' ? certificateWithHash(answer, fingerprint) : undefined
  if (roots) return { ...(await connection.tls?.()), roots }
  const reason = typeof answer === 'string' ? 'it answered with another certificate' : `HTTP ${status}`
  throw caError('unavailable', { action, reason, remedy: 'Check fingerprint and address' })
}

/**
 * The first certificate in `text` as PEM, if it has that hash. Only the hashed bytes are encoded: the server is
 * not verified yet, and anything else in its answer would be trusted too.
 */
function certificateWithHash(text: string, fingerprint: string): Buffer | undefined {
  try {
    const der = pemToDer(text)
    if (createHash('sha256').update(der).digest('hex') !== fingerprint) return undefined
    return Buffer.from(derToPem(der, 'CERTIFICATE'))
  } catch {
    return undefined
  }
}

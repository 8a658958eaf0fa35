/** Revocation lists for tests, in the name of a CA whose key is in a folder. */
import assert from 'node:assert/strict'
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeCrl } from '@livery/core/testing'

/** Writes `crl.pem`: a revocation list of the embedded CA in `ca` that names these serial numbers (hex). */
export async function revoke(folder: string, serialNumbers: readonly string[]): Promise<void> {
  const { anchors } = JSON.parse(await readFile(join(folder, 'ca', 'authority.json'), 'utf8')) as {
    readonly anchors: readonly { readonly root: { readonly certificate: string; readonly privateKey: string } }[]
  }
  const root = anchors[0]?.root
  assert.ok(root)
  const der = createPrivateKey(root.privateKey).export({ type: 'pkcs8', format: 'der' })
  const key = await webcrypto.subtle.importKey('pkcs8', der, { name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign'])
  const subject = new X509Certificate(root.certificate).subject.replaceAll('\n', ', ')
  const now = Date.now()
  const crl = await makeCrl({ subject, key }, serialNumbers, { thisUpdate: now - 60_000, nextUpdate: now + 3_600_000 })
  await writeFile(join(folder, 'crl.new'), crl)
  await rename(join(folder, 'crl.new'), join(folder, 'crl.pem'))
}

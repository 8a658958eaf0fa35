/** One HTTP request for a token, on a separate connection, with the bounds of {@link HttpsJson}. */
import type { Clock } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import type { HttpRequest } from '../transport/http-pool.ts'
import { HttpsJson, type JsonAnswer } from '../transport/https-json.ts'

interface TokenExchange extends HttpRequest {
  /** Follows "Cannot" in errors: `exchange … at …`. */
  readonly action: string
  readonly url: URL
  readonly clock: Clock
  readonly signal: AbortSignal
}

const TIMEOUT_MS = 5_000
const MAX_ANSWER_BYTES = 65_536

/** Resolves and rejects as {@link HttpsJson.request} does, and rejects with a `CAError` `unavailable` for a redirect. */
export async function exchange({ url, clock, ...request }: TokenExchange): Promise<JsonAnswer> {
  const options = { tls: undefined, clock, timeoutMs: TIMEOUT_MS, maxBytes: MAX_ANSWER_BYTES }
  await using client = new HttpsJson({ address: url.origin, ...options })
  const answer = await client.request({ ...request, path: `.${url.pathname}${url.search}` })
  if (answer.status < 300 || answer.status >= 400) return answer
  // A redirect would send the token to another server.
  const reason = `it answered with a redirect (HTTP ${answer.status})`
  throw caError('unavailable', { action: request.action, reason, remedy: 'Check the address; it is asked again' })
}

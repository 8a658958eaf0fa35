/** One HTTP request for a token: bounded in time and size, without redirects, and its errors carry no secret. */
import { CAError, type Clock } from '@livery/core'
import { MAX_PIECES, readBounded } from '../transport/bounded-body.ts'

export interface HttpExchange {
  /** For messages, after "Cannot": `exchange … at …`. */
  readonly what: string
  readonly url: URL
  readonly method?: 'GET' | 'POST'
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly clock: Clock
  readonly signal: AbortSignal
}

export interface HttpAnswer {
  readonly status: number
  readonly headers: Headers
  readonly body: string
}

const TIMEOUT_MS = 5_000
const MAX_ANSWER_BYTES = 65_536

/**
 * Any answer, whatever its status. Rejects with a `CAError` `timeout`, `unavailable`, or `bad-response` for an answer over
 * 64 kB, or with the signal's reason.
 */
export async function exchange({ what, url, clock, signal, ...request }: HttpExchange): Promise<HttpAnswer> {
  const deadline = new AbortController()
  using _ = clock.at(clock.now() + TIMEOUT_MS, () =>
    deadline.abort(
      new CAError('timeout', `Cannot ${what}: it gave no answer within ${TIMEOUT_MS} ms. It is asked again.`),
    ),
  )
  const ending = AbortSignal.any([signal, deadline.signal])
  try {
    // A token must not follow a redirect to who knows where.
    const response = await fetch(url, { ...request, redirect: 'error', signal: ending })
    const body = await readBounded(response.body, MAX_ANSWER_BYTES)
    if (body !== undefined) return { status: response.status, headers: response.headers, body: body.toString() }
  } catch (error) {
    ending.throwIfAborted()
    throw new CAError(
      'unavailable',
      `Cannot ${what}: ${reasonOf(error)}. Check that it can be reached from here; it is asked again.`,
    )
  }
  throw new CAError(
    'bad-response',
    `Cannot ${what}: its answer has more than ${MAX_ANSWER_BYTES} bytes or ${MAX_PIECES} pieces. Check the address.`,
  )
}

/** `fetch` says "fetch failed", and what happened in its cause, or one further down for each address that was tried. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.message !== '' && error.message !== 'fetch failed') return error.message
  if (error instanceof AggregateError) return reasonOf(error.errors[0])
  return error.cause === undefined ? error.name : reasonOf(error.cause)
}

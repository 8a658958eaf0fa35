/** The answer of a route. */

/** A client that gets an answer without end. */
export interface FeedClient {
  /** Resolves when its socket has taken all of it. Rejects with the reason of `gone`. */
  write(text: string): Promise<void>
  /** Aborted when it has left. */
  readonly gone: AbortSignal
}

export interface Answer {
  readonly status: number
  readonly contentType: string
  /** Pieces are made while they are sent, one such answer at a time. A function sends until the client leaves. */
  readonly body: string | Iterable<string> | ((client: FeedClient) => Promise<void>)
  readonly headers?: Readonly<Record<string, string>>
}

export function text(status: number, body: string, headers: Answer['headers'] = {}): Answer {
  return { status, contentType: 'text/plain; charset=utf-8', body, headers }
}

export function json(status: number, value: object): Answer {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value, undefined, 2)}\n` }
}

export const BUSY = text(503, 'Others wait for this already. Ask again in a few seconds.\n', { 'retry-after': '2' })

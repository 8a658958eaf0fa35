/** The answer of a route. */
import type { FeedClient } from '../page/page-feed.ts'

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

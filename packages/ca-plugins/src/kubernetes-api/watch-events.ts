/** The events of a watch: one JSON object per line, https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
import { setImmediate } from 'node:timers/promises'
import type { CAError } from '@livery/core/plugin'
import { caError } from '../answers/ca-error.ts'
import { MAX_PIECES } from '../transport/bounded-body.ts'

export interface WatchEvent {
  readonly type: unknown
  readonly object: unknown
}

/** Larger than any object that the API server can store. */
const MAX_LINE = 4_194_304
/** A poll of the event loop can bring 2 MB: 25,000 short events, each of which takes 20 µs. */
const EVENTS_PER_TURN = 256

/** Ends when `body` does. Throws a `CAError` `bad-response` for a line that is not an event. */
export async function* readWatchEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<WatchEvent, void> {
  let count = 0
  for await (const line of lines(body)) {
    if (++count % EVENTS_PER_TURN === 0) await setImmediate()
    if (line.trim() !== '') yield parse(line)
  }
}

/** Looks at each byte once, however small the pieces of a line are. */
async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let pieces: string[] = []
  let length = 0
  // Leaving the loop early cancels the request. An unfinished last line was cut off.
  for await (const chunk of body) {
    const [rest = '', ...begun] = decoder.decode(chunk, { stream: true }).split('\n')
    pieces.push(rest)
    length += rest.length
    for (const part of begun) {
      yield pieces.join('')
      pieces = [part]
      length = part.length
    }
    if (length > MAX_LINE) throw badLine(`has more than ${MAX_LINE} characters`)
    if (pieces.length > MAX_PIECES) throw badLine(`has more than ${MAX_PIECES} pieces`)
  }
}

function parse(line: string): WatchEvent {
  try {
    const { type, object } = Object(JSON.parse(line))
    return { type, object }
  } catch {
    throw badLine('is not JSON')
  }
}

function badLine(reason: string): CAError {
  const remedy = 'Check that this is an API server'
  return caError('bad-response', { action: 'read the events of a watch', reason: `a line ${reason}`, remedy })
}

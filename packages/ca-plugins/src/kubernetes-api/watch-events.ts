/** The events of a watch: one JSON object per line, https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
import type { CAError } from '@livery/core'
import { caError } from '../answers/ca-error.ts'

export interface WatchEvent {
  readonly type: unknown
  readonly object: unknown
}

/** More than the store of the API server takes for one object. */
const MAX_LINE = 4_194_304

/** Ends when `body` does. Throws a `CAError` `bad-response` for a line that is not an event. */
export async function* readWatchEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<WatchEvent, void> {
  for await (const line of lines(body)) if (line.trim() !== '') yield parse(line)
}

async function* lines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let rest = ''
  // Leaving the loop early cancels the request.
  for await (const chunk of body) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > MAX_LINE) throw badLine(`has more than ${MAX_LINE} characters`)
    yield* parts
  }
  // The rest was cut off.
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

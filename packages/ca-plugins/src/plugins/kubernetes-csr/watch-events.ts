/** The events of a watch: one JSON object a line, https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes */
import { CAError } from '@livery/core'

export interface WatchEvent {
  readonly type: unknown
  readonly object: unknown
}

/** More than the store of the API server takes for one object. */
const MAX_LINE = 4_194_304

/**
 * Ends when the stream does, however it does; rejects with the signal's reason once that is aborted, and with a
 * `CAError` `bad-response` for a line that is no event.
 */
export async function* readWatchEvents(
  stream: ReadableStream<Uint8Array> | undefined,
  signal: AbortSignal,
): AsyncGenerator<WatchEvent, void> {
  for await (const line of lines(stream, signal)) if (line.trim() !== '') yield parse(line)
}

async function* lines(
  stream: ReadableStream<Uint8Array> | undefined,
  signal: AbortSignal,
): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of chunks(stream, signal)) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > MAX_LINE) throw unusable(`has a line of more than ${MAX_LINE} characters`)
    yield* parts
  }
  // What is left was cut off.
}

async function* chunks(
  stream: ReadableStream<Uint8Array> | undefined,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void> {
  try {
    // Leaving the loop early cancels the request.
    if (stream) for await (const chunk of stream) yield chunk
  } catch {
    // Whoever reads looks what has happened meanwhile, and is told then what is wrong with the connection.
    signal.throwIfAborted()
  }
}

function parse(line: string): WatchEvent {
  try {
    const { type, object } = Object(JSON.parse(line))
    return { type, object }
  } catch {
    throw unusable('is no JSON')
  }
}

function unusable(reason: string): CAError {
  return new CAError(
    'bad-response',
    `Cannot read the events of a watch: a line ${reason}. Check that this is an API server.`,
  )
}

/** Reads `text/event-stream` (HTML Living Standard, 9.2), to the extent that the agent uses it. */

interface StreamEvent {
  readonly event: string
  readonly data: string
}

/** A link that is silent for longer is broken: the agent sends at least a comment every 15 s. */
const SILENCE_MS = 40_000

/** The events of a response body, until it ends; throws when the link is silent or breaks. */
export async function* eventsOf(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<StreamEvent, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await withinSilence(reader.read())
      if (done) return
      text += value
      const blocks = text.split('\n\n')
      text = blocks.pop() ?? ''
      for (const block of blocks) {
        const event = parseBlock(block)
        if (event) yield event
      }
    }
  } finally {
    // A failure here has no effect: nobody reads any further.
    await reader.cancel().catch(() => undefined)
  }
}

/** `undefined` for a block of comments. */
function parseBlock(block: string): StreamEvent | undefined {
  let event = 'message'
  const data: string[] = []
  for (const line of block.split('\n')) {
    if (line.startsWith('event:')) event = line.slice('event:'.length).trim()
    else if (line.startsWith('data:')) data.push(line.slice('data:'.length).trimStart())
  }
  return data.length === 0 ? undefined : { event, data: data.join('\n') }
}

async function withinSilence<T>(result: Promise<T>): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`Nothing came for ${SILENCE_MS / 1_000} s.`)), SILENCE_MS)
  return await Promise.race([result, promise]).finally(() => clearTimeout(timer))
}

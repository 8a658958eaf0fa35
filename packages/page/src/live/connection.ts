/** Keeps the page connected to the agent, with backoff when the link breaks. */
import { signal } from '@preact/signals'
import type { PageChange, PageHello } from '../../../agent/src/page/state.ts'
import { apply, begin } from './agent-state.ts'
import { eventsOf } from './event-stream.ts'

/** `lost`: the page is out of date. `since` and `retryAt` are times of the browser's clock. */
export type Link =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'lost'; readonly since: number; readonly retryAt: number; readonly reason: string }

export const link = signal<Link>({ kind: 'connecting' })

const RETRY_MIN_MS = 500
const RETRY_MAX_MS = 10_000

/** Connects, again and again; never resolves. */
export async function stayConnected(): Promise<never> {
  for (let attempt = 0; ; attempt++) {
    try {
      await followAgent(() => {
        attempt = 0
        if (link.value.kind !== 'live') link.value = { kind: 'live' }
      })
      throw new Error('The agent ended the connection.')
    } catch (error) {
      const wait = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** attempt)
      const since = link.value.kind === 'lost' ? link.value.since : Date.now()
      link.value = { kind: 'lost', since, retryAt: Date.now() + wait, reason: reasonOf(error) }
      await elapsedOrOnline(wait)
    }
  }
}

/** Follows one stream of events to its end. `onCurrent` is called whenever the page shows the agent's state. */
async function followAgent(onCurrent: () => void): Promise<void> {
  const abort = new AbortController()
  try {
    for await (const { event, data } of eventsOf(await openEvents(abort.signal))) {
      if (event === 'hello') {
        const hello: PageHello = JSON.parse(data)
        begin(hello)
      } else if (event === 'change') {
        const change: PageChange = JSON.parse(data)
        if (apply(change)) onCurrent()
      }
    }
  } finally {
    abort.abort()
  }
}

/** Uses `fetch`, since an EventSource hides why it is refused and does not notice a silent link. */
async function openEvents(signal: AbortSignal): Promise<ReadableStream<Uint8Array<ArrayBuffer>>> {
  const response = await fetch('/page/events', { headers: { accept: 'text/event-stream' }, signal })
  if (!response.ok)
    throw new Error((await response.text()).trim() || `The agent answered with status ${response.status}.`)
  if (!response.body) throw new Error('The agent sent no events.')
  return response.body
}

/** Browsers describe an agent that does not listen in different words, none of which helps. */
function reasonOf(error: unknown): string {
  if (error instanceof TypeError) return 'The agent does not answer.'
  return error instanceof Error ? error.message : String(error)
}

async function elapsedOrOnline(ms: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, ms)
  const isOnline = (): void => resolve()
  addEventListener('online', isOnline)
  await promise
  clearTimeout(timer)
  removeEventListener('online', isOnline)
}

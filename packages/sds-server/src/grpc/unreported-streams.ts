/** Detects streams that Node never reports: their header block is over its limits, but nghttp2 decodes the rest anyway. */
import type { Http2Stream } from 'node:http2'
import { performance } from 'node:perf_hooks'

/** The shortest time between two calls of a listener: it may look at thousands of connections. */
const PAUSE_MS = 1

const listeners = new Set<() => void>()
let isWatching = false
let calledAt = 0

/** Calls `listener` while such streams are reset, in the middle of a read of their socket, until the returned object is disposed. */
export function onUnreportedStreams(listener: () => void): Disposable {
  listeners.add(listener)
  return { [Symbol.dispose]: () => listeners.delete(listener) }
}

/**
 * Call it with each reported stream: the first one of the process supplies the hook, which has no public name in Node. Node
 * reads a property of each closed stream's handle, its `Http2Stream`; if it made none, the read reaches the prototype. A Node
 * without this internal reports nothing.
 */
export function learnFrom(stream: Http2Stream): void {
  if (isWatching) return
  isWatching = true
  const handle: unknown = Reflect.get(stream, symbolOf(stream, 'kHandle') ?? '')
  if (typeof handle !== 'object' || handle === null) return
  const owner = symbolOf(handle, 'owner_symbol')
  const prototype = Reflect.getPrototypeOf(handle)
  if (owner === undefined || prototype === null) return
  Object.defineProperty(prototype, owner, {
    configurable: true,
    get: hear,
    set(this: object, value: unknown) {
      Object.defineProperty(this, owner, { configurable: true, enumerable: true, writable: true, value })
    },
  })
}

function symbolOf(object: object, description: string): symbol | undefined {
  return Object.getOwnPropertySymbols(object).find(symbol => symbol.description === description)
}

function hear(): undefined {
  const now = performance.now()
  if (now - calledAt < PAUSE_MS) return
  calledAt = now
  for (const listener of listeners) listener()
}

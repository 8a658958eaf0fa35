/** Stops and starts the reads of a socket below its HTTP/2 session. Node has no public API for it: `pause()` has no effect there. */
import type { Socket } from 'node:net'

/** Bytes wait in the kernel, and then in the peer. Does nothing where a Node without this internal runs. */
export function stopReading(socket: Socket): void {
  call(socket, 'readStop')
}

/**
 * Undoes {@link stopReading}. Does nothing once the socket is destroyed, even while its end waits for its streams: its session
 * takes no more bytes, and Node throws outside any handler if a destroyed socket gets some.
 */
export function startReading(socket: Socket): void {
  if (!socket.destroyed) call(socket, 'readStart')
}

function call(socket: Socket, name: 'readStop' | 'readStart'): void {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return
  const method: unknown = Reflect.get(handle, name)
  if (typeof method === 'function') Reflect.apply(method, handle, [])
}

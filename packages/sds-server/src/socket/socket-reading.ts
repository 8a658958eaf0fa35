/** Stops and starts the reads of a socket below its HTTP/2 session, for which Node has no public name: `pause()` stops nothing there. */
import type { Socket } from 'node:net'

/** Bytes wait in the kernel, and then in the peer. Does nothing where a Node without this internal runs. */
export function stopReading(socket: Socket): void {
  call(socket, 'readStop')
}

/** Undoes {@link stopReading}; does nothing once the socket is closed. */
export function startReading(socket: Socket): void {
  call(socket, 'readStart')
}

function call(socket: Socket, name: 'readStop' | 'readStart'): void {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null) return
  const method: unknown = Reflect.get(handle, name)
  if (typeof method === 'function') Reflect.apply(method, handle, [])
}

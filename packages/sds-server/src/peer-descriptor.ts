/** The file descriptor under a socket, for which Node has no public name. */
import { once } from 'node:events'
import { connect, type Server, type Socket } from 'node:net'
import type { ReadPeerCredentials } from '@livery/core'

/** `undefined` once the socket is closed, or where a Node without this internal runs. */
export function descriptorOf(socket: Server | Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return undefined
  return typeof handle.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}

/** ` (pid 7, uid 0)` of the process that listens at a path, or an empty text where it cannot be told. */
export async function describeListener(path: string, read: ReadPeerCredentials | undefined): Promise<string> {
  if (!read) return ''
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    const descriptor = descriptorOf(socket)
    if (descriptor === undefined) return ''
    const { pid, uid } = read(descriptor)
    return ` (pid ${pid}, uid ${uid})`
  } catch {
    // It is only a hint in a message that is right without it.
    return ''
  } finally {
    socket.destroy()
  }
}

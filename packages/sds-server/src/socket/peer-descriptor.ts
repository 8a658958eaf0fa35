/** The file descriptor under a socket, for which Node has no public name. */
import { once } from 'node:events'
import { connect, type Server, type Socket } from 'node:net'
import type { PeerCredentials, ReadPeerCredentials } from '@livery/core'

/** `undefined` once the socket is closed, or where a Node without this internal runs. */
export function descriptorOf(socket: Server | Socket): number | undefined {
  const handle: unknown = Reflect.get(socket, '_handle')
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return undefined
  return typeof handle.fd === 'number' && handle.fd >= 0 ? handle.fd : undefined
}

/** The process that listens at a path, as it was when it began to; `undefined` if unknown. */
export async function readListener(
  path: string,
  read: ReadPeerCredentials | undefined,
): Promise<PeerCredentials | undefined> {
  if (!read) return undefined
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    const descriptor = descriptorOf(socket)
    return descriptor === undefined ? undefined : read(descriptor)
  } catch {
    // The listener accepts no connections, or is gone.
    return undefined
  } finally {
    socket.destroy()
  }
}

/** ` (pid 7, uid 0)`, or an empty text. */
export function describePeer(peer: PeerCredentials | undefined): string {
  return peer ? ` (pid ${peer.pid}, uid ${peer.uid})` : ''
}

/** A connection to the agent over which its operator's token may go: the kernel says who listens at the other end. */
import { once } from 'node:events'
import { lstat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { checkFolder } from '@livery/core'
import { readPeerCredentials } from '@livery/native-keygen'
import { descriptorOf } from '@livery/sds-server'

/**
 * Connects to a UNIX socket on which root or this user listens. Rejects with an `Error` if somebody else does; without
 * the addon, if somebody else could have put the socket there.
 */
export async function connectToAgent(path: string): Promise<Socket> {
  if (!readPeerCredentials) await checkPlace(path)
  const socket = connect(path)
  try {
    await once(socket, 'connect')
    const descriptor = descriptorOf(socket)
    if (readPeerCredentials) refuseOthers(descriptor === undefined ? undefined : readPeerCredentials(descriptor).uid)
    return socket
  } catch (error) {
    socket.destroy()
    throw error
  }
}

async function checkPlace(path: string): Promise<void> {
  checkFolder(dirname(path))
  refuseOthers((await lstat(path)).uid)
}

function refuseOthers(uid: number | undefined): void {
  if (uid === 0 || (uid !== undefined && uid === process.geteuid?.())) return
  const who = uid === undefined ? 'a process that the kernel does not name' : `uid ${uid}`
  throw new Error(
    `${who} listens there, which is neither root nor this user: the token of admin.tokenFile was not sent`,
  )
}

/** A connection to the agent that may carry its operator's token: the kernel identifies the listener. */
import { once } from 'node:events'
import { lstat } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { dirname } from 'node:path'
import { checkFolder, UntrustedPathError } from '@livery/core/plugin'
import { readPeerCredentials } from '@livery/native-keygen'
import { descriptorOf } from '@livery/sds-server'

/** Whether the kernel's credentials of the peer can be read. */
export const seesPeers = readPeerCredentials !== undefined

/**
 * Connects to a UNIX socket on which root or this user listens. Rejects with an `Error` if another user listens, or could have
 * put the socket there: a listener can have passed it on since, as systemd does for its services.
 */
export async function connectToAgent(path: string): Promise<Socket> {
  await checkPlace(path)
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
  try {
    checkFolder(dirname(path))
  } catch (cause) {
    if (!(cause instanceof UntrustedPathError)) throw cause
    throw new Error(`${NOT_SENT}: ${cause.message.replace(/\.$/, '')}`, { cause })
  }
  const file = await lstat(path)
  if (!file.isSocket()) throw new Error(`${NOT_SENT}: ${path} is not a socket, and may lead to one of another program`)
  // `admin.owner` can give the file away; without the addon nothing else says who listens.
  if (!seesPeers) refuseOthers(file.uid)
}

const NOT_SENT = 'the token of admin.tokenFile was not sent'

function refuseOthers(uid: number | undefined): void {
  if (uid === 0 || (uid !== undefined && uid === process.geteuid?.())) return
  const who = uid === undefined ? 'a process that the kernel does not name' : `uid ${uid}`
  throw new Error(`${NOT_SENT}: ${who} listens there, which is neither root nor this user`)
}

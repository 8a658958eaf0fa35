/** Whether a server answers on a UNIX socket: it has to begin HTTP/2, as clients of SDS see it. */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { type Clock, withDeadline } from '@livery/core'

/** Clients such as Istio's agent wait as long for the socket of another server. */
const TIMEOUT_MS = 1_000

/** Resolves when the settings of the server have come. Rejects after 1 s, with the system's error, or with the signal's reason. */
export async function socketAnswers(path: string, clock: Clock, signal: AbortSignal): Promise<void> {
  const session = connect('http://localhost', { createConnection: () => connectSocket(path) })
  // One that comes after the end is of no interest.
  session.on('error', () => {})
  try {
    const error = () => new Error(`no answer within ${TIMEOUT_MS} ms`)
    await withDeadline({ clock, ms: TIMEOUT_MS, error, signal }, ending =>
      once(session, 'remoteSettings', { signal: ending }),
    )
  } finally {
    session.destroy()
  }
}

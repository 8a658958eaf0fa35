/** Opens an HTTP/2 session for gRPC: TCP, TLS with its checks, and the server's settings. */
import { type ClientHttp2Session, type ClientSessionOptions, connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { checkServerIdentity, connect as connectTls, createSecureContext } from 'node:tls'
import { after, type Clock } from '@livery/core'
import { DIAL_MS, limitConnecting } from './connect-limit.ts'
import type { ChannelTarget } from './grpc-channel.ts'

const SESSION_OPTIONS: ClientSessionOptions = {
  settings: { enablePush: false },
  // A token may be as long as the server takes.
  maxSendHeaderBlockLength: 1_048_576,
  // Megabytes: the answers of a full window of calls. At the limit Node drops headers of answers.
  maxSessionMemory: 256,
}

/**
 * Resolves with a session whose server has spoken HTTP/2. Rejects with what kept it from that, after 20 s at the latest,
 * and as soon as `signal` is aborted.
 */
export type Dial = (signal: AbortSignal) => Promise<ClientHttp2Session>

export function dialer(target: ChannelTarget, clock: Clock): Dial {
  const open = socketOpener(target)
  return async signal => {
    const socket = open()
    using _tcp = limitConnecting(socket, target.host, clock)
    using _late = after(clock, DIAL_MS, () => socket.destroy(new Error(`no connection within ${DIAL_MS} ms`)))
    const onAbort = () => socket.destroy()
    signal.addEventListener('abort', onAbort)
    try {
      return await openSession(socket, target.plaintext)
    } catch (error) {
      socket.destroy()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}

/** The roots are parsed once for all attempts. */
function socketOpener({ host, port, plaintext, serverName, sentName = host, material }: ChannelTarget): () => Socket {
  if (plaintext) return () => connectTcp({ host, port, noDelay: true })
  const { roots, clientCertificate } = material
  const secureContext = createSecureContext({
    ...(roots && { ca: roots }),
    ...(clientCertificate && { cert: clientCertificate.certificate, key: clientCertificate.key }),
  })
  return () =>
    connectTls({
      host,
      port,
      secureContext,
      // TLS has no addresses for names, and Node 26 throws: then none is sent.
      servername: isIP(sentName) ? '' : sentName,
      ALPNProtocols: ['h2'],
      // Not the default, which NODE_TLS_REJECT_UNAUTHORIZED turns off for a whole process.
      rejectUnauthorized: true,
      checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
    })
}

async function openSession(socket: Socket, plaintext: boolean): Promise<ClientHttp2Session> {
  const { promise, resolve, reject } = Promise.withResolvers<ClientHttp2Session>()
  // Each call names its own authority.
  const session = connectHttp2(plaintext ? 'http://ca' : 'https://ca', {
    ...SESSION_OPTIONS,
    createConnection: () => socket,
  })
    .once('remoteSettings', () => resolve(session))
    // Stays to the end: a session that fails must not end the process; its calls have the reason.
    .on('error', reject)
    .once('close', () => reject(new Error('the server closed the connection')))
  // A session whose TLS socket fails neither says so nor destroys it: a refused client certificate does that.
  socket.once('error', error => {
    socket.destroy()
    reject(error)
  })
  return await promise
}

/** Opens an HTTP/2 session for gRPC: TCP, a proxy's tunnel, TLS with its checks, and the server's settings. */
import { readFileSync } from 'node:fs'
import { type ClientHttp2Session, type ClientSessionOptions, connect as connectHttp2 } from 'node:http2'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import {
  type ConnectionOptions,
  checkServerIdentity,
  connect as connectTls,
  createSecureContext,
  TLSSocket,
} from 'node:tls'
import { after, type Clock, type TlsMaterial } from '@livery/core/plugin'
import { DIAL_MS, limitConnecting } from './connect-limit.ts'
import { openTunnel, proxyFor } from './http-proxy.ts'
import { keyExchangeOf } from './key-exchange.ts'

/** The address of the server, and how it proves itself. */
export interface ChannelTarget {
  /** A name or an address; an IPv6 address without its brackets. */
  readonly host: string
  readonly port: number
  /** The `:authority` of each call. Default: `host:port`. */
  readonly authority?: string | undefined
  /** Whether the connection goes without TLS. */
  readonly plaintext: boolean
  /** The name that the server's certificate must carry. */
  readonly serverName: string
  /** The name that TLS sends (RFC 6066, section 3). Default: `host`. */
  readonly sentName?: string | undefined
  readonly material: TlsMaterial
}

const SESSION_OPTIONS: ClientSessionOptions = {
  settings: { enablePush: false },
  // A token may be as long as the server accepts.
  maxSendHeaderBlockLength: 1_048_576,
  // Megabytes: the answers of a full window of calls. At the limit Node drops headers of answers.
  maxSessionMemory: 256,
}

/**
 * Resolves with a session once its server has spoken HTTP/2. Rejects with the cause of a failure, after 20 s at the latest,
 * and as soon as `signal` is aborted.
 */
export type Dial = (signal: AbortSignal) => Promise<ClientHttp2Session>

export function dialer(target: ChannelTarget, clock: Clock, environment: NodeJS.ProcessEnv): Dial {
  const { host, port, plaintext } = target
  // The roots are parsed once for all attempts.
  let tls: ConnectionOptions | undefined
  return async signal => {
    const proxy = proxyFor(host, environment)
    if (!plaintext) tls ??= tlsOptions(target, environment)
    const { host: peer, port: peerPort } = proxy ?? target
    let socket: Socket =
      tls && !proxy ? connectTls({ ...tls, host, port }) : connectTcp({ host: peer, port: peerPort, noDelay: true })
    using _tcp = limitConnecting(socket, peer, clock)
    using _late = after(clock, DIAL_MS, () => socket.destroy(new Error(`no connection within ${DIAL_MS} ms`)))
    const onAbort = () => socket.destroy()
    signal.addEventListener('abort', onAbort)
    try {
      if (proxy) {
        // The protocol inside the tunnel reports why it ended.
        await openTunnel(socket.on('error', ignore), proxy, target)
        if (tls) socket = connectTls({ ...tls, socket })
      }
      const session = await openSession(socket, plaintext)
      if (socket instanceof TLSSocket) target.material.connected?.(keyExchangeOf(socket))
      return session
    } catch (error) {
      socket.destroy()
      throw error
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }
}

/** gRPC's environment variables apply where the configuration is silent. */
function tlsOptions(
  { host, serverName, sentName = host, material }: ChannelTarget,
  { GRPC_SSL_CIPHER_SUITES: ciphers, GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: rootsFile }: NodeJS.ProcessEnv,
): ConnectionOptions {
  const { clientCertificate, groups, roots = rootsFile ? readFileSync(rootsFile) : undefined } = material
  return {
    secureContext: createSecureContext({
      ...(roots && { ca: roots }),
      ...(ciphers && { ciphers }),
      ...(groups && { ecdhCurve: groups.join(':') }),
      ...(clientCertificate && { cert: clientCertificate.certificate, key: clientCertificate.key }),
    }),
    // TLS allows no addresses as names, and Node 26 throws: then none is sent.
    servername: isIP(sentName) ? '' : sentName,
    ALPNProtocols: ['h2'],
    // Explicit, since NODE_TLS_REJECT_UNAUTHORIZED turns the default off for a whole process.
    rejectUnauthorized: true,
    checkServerIdentity: (_, certificate) => checkServerIdentity(serverName, certificate),
  }
}

async function openSession(socket: Socket, plaintext: boolean): Promise<ClientHttp2Session> {
  const { promise, resolve, reject } = Promise.withResolvers<ClientHttp2Session>()
  // Each call names its own authority.
  const session = connectHttp2(plaintext ? 'http://ca' : 'https://ca', {
    ...SESSION_OPTIONS,
    createConnection: () => socket,
  })
    .once('remoteSettings', () => resolve(session))
    // The listener stays: a session that fails must not end the process, and its calls have the reason.
    .on('error', reject)
    .once('close', () => reject(new Error('the server closed the connection')))
  // A TLS socket that fails, as for a refused client certificate, neither notifies nor destroys its session.
  socket.once('error', error => {
    socket.destroy()
    reject(error)
  })
  return await promise
}

function ignore(): void {}

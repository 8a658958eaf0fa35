/** The attacks of a hostile caller on the node: each continues until its signal aborts, then closes what it has opened. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from 'node:http2'
import { connect as connectSocket, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { manyNamesRequest, nackOf } from './discovery-messages.ts'
import { headerFlood, settingsFlood } from './http2-floods.ts'

export interface Target {
  /** The shared SDS socket. */
  readonly socket: string
  readonly admin: { readonly host: string; readonly port: number }
  /** The one name that the attacker is allowed. */
  readonly ownName: string
}

interface Attack {
  readonly name: string
  run(target: Target, signal: AbortSignal): Promise<void>
}

const METHOD = '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets'
/** The longest resource name. */
const LONG_NAME = `spiffe://cluster.local/${'a'.repeat(1_990)}`

export const ATTACKS: readonly Attack[] = [
  {
    name: 'empty streams',
    run: (target, signal) => withSessions(target, signal, { sessions: 20, streams: 1_000 }, () => {}),
  },
  {
    name: 'refused names',
    run: (target, signal) =>
      withSessions(target, signal, { sessions: 20, streams: 50 }, stream =>
        stream.write(frame(manyNamesRequest(Array.from({ length: 100 }, (_, index) => `${LONG_NAME}/${index}`)))),
      ),
  },
  {
    name: 'half messages',
    run: (target, signal) =>
      withSessions(target, signal, { sessions: 20, streams: 50 }, stream =>
        stream.write(frame(Buffer.alloc(250_000)).subarray(0, 240_000)),
      ),
  },
  {
    name: 'readers that stop',
    run: (target, signal) =>
      withSessions(target, signal, { sessions: 20, streams: 50, initialWindowSize: 0 }, stream =>
        stream.write(frame(manyNamesRequest([target.ownName, 'ROOTCA']))),
      ),
  },
  { name: 'rapid reset', run: rapidReset },
  { name: 'requests without end', run: askWithoutEnd },
  { name: 'rejections without end', run: rejectWithoutEnd },
  { name: 'idle connections', run: (target, signal) => holdSockets(() => connectSocket(target.socket), 3_000, signal) },
  { name: 'garbage', run: (target, signal) => sendAgain(() => connectSocket(target.socket), GARBAGE, signal) },
  {
    name: 'header floods',
    run: (target, signal) => sendAgain(() => connectSocket(target.socket), headerFlood(), signal),
  },
  {
    name: 'settings floods',
    run: (target, signal) => sendAgain(() => connectSocket(target.socket), settingsFlood(), signal),
  },
  {
    name: 'idle admin connections',
    run: ({ admin }, signal) => holdSockets(() => connectSocket(admin), 1_000, signal),
  },
  { name: 'dumps that nobody reads', run: dumpUnread },
]

const GARBAGE = Buffer.from(`GET / HTTP/1.1\r\nhost: livery\r\n\r\n${'\0'.repeat(10_000)}`)

interface Load {
  readonly sessions: number
  /** The streams of each session. */
  readonly streams: number
  readonly initialWindowSize?: number
}

/** Holds sessions with open streams, and reopens both as they end. */
async function withSessions(
  target: Target,
  signal: AbortSignal,
  { sessions, streams, ...settings }: Load,
  begin: (stream: ClientHttp2Stream) => void,
): Promise<void> {
  /** The open sessions with their number of streams. */
  const open = new Map<ClientHttp2Session, number>()
  await each(signal, 20, () => {
    if (open.size < sessions) {
      const session = openSession(target, settings)
      open.set(session, 0)
      session.once('close', () => open.delete(session))
    }
    for (const [session, count] of open) {
      for (let left = Math.min(25, streams - count); left > 0; left--) begin(countedStream(session, open))
    }
  })
  for (const session of open.keys()) session.destroy()
}

/** More of them wait in this process, which then takes minutes to drop them, without an attack. */
const MOST_RESET = 10_000

async function rapidReset(target: Target, signal: AbortSignal): Promise<void> {
  const open = new Map<ClientHttp2Session, number>()
  let session = openSession(target)
  await each(signal, 10, () => {
    if (session.destroyed) session = openSession(target)
    if (!open.has(session)) {
      open.clear()
      open.set(session, 0)
    }
    for (let count = 0; count < 500 && !session.destroyed && (open.get(session) ?? 0) < MOST_RESET; count++)
      countedStream(session, open).close(constants.NGHTTP2_CANCEL)
  })
  session.destroy()
}

/** Asks for its own secret as fast as the agent reads. */
async function askWithoutEnd(target: Target, signal: AbortSignal): Promise<void> {
  const request = frame(manyNamesRequest([target.ownName]))
  await withSessions(target, signal, { sessions: 4, streams: 25 }, stream => {
    const ask = () => {
      while (!stream.destroyed && !signal.aborted && stream.write(request));
    }
    stream.on('drain', ask)
    stream.resume()
    ask()
  })
}

async function rejectWithoutEnd(target: Target, signal: AbortSignal): Promise<void> {
  await withSessions(target, signal, { sessions: 2, streams: 25 }, stream => {
    stream.on('data', () => stream.write(frame(nackOf(target.ownName))))
    stream.write(frame(manyNamesRequest([target.ownName])))
  })
}

/** Requests everything that the admin endpoint can list, and reads none of it. */
async function dumpUnread({ admin }: Target, signal: AbortSignal): Promise<void> {
  const request = Buffer.from(`GET /config_dump HTTP/1.1\r\nhost: ${admin.host}:${admin.port}\r\n\r\n`)
  await holdSockets(
    () => {
      const socket = connectSocket(admin)
      socket.pause()
      socket.write(request)
      return socket
    },
    100,
    signal,
  )
}

/** Keeps `most` connections open, replacing those that are closed. */
async function holdSockets(open: () => Socket, most: number, signal: AbortSignal): Promise<void> {
  const sockets = new Set<Socket>()
  await each(signal, 20, () => {
    for (let count = 0; count < 50 && sockets.size < most; count++) {
      const socket = open()
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('close', () => sockets.delete(socket))
    }
  })
  for (const socket of sockets) socket.destroy()
}

/** Sends `bytes` on ten connections at a time, and reconnects. */
async function sendAgain(open: () => Socket, bytes: Buffer, signal: AbortSignal): Promise<void> {
  await holdSockets(
    () => {
      const socket = open()
      socket.resume()
      socket.write(bytes)
      return socket
    },
    10,
    signal,
  )
}

function openSession({ socket }: Target, settings: { readonly initialWindowSize?: number } = {}): ClientHttp2Session {
  const session = connect('http://localhost', {
    createConnection: () => connectSocket(socket),
    settings,
    peerMaxConcurrentStreams: 100_000,
  })
  session.setMaxListeners(0)
  session.on('error', () => {})
  return session
}

function countedStream(session: ClientHttp2Session, open: Map<ClientHttp2Session, number>): ClientHttp2Stream {
  const change = (by: number) => {
    const count = open.get(session)
    if (count !== undefined) open.set(session, count + by)
  }
  const stream = openStream(session)
  change(1)
  stream.once('close', () => change(-1))
  return stream
}

function openStream(session: ClientHttp2Session): ClientHttp2Stream {
  const stream = session.request({
    ':method': 'POST',
    ':path': METHOD,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.on('error', () => {})
  return stream
}

/** A gRPC message with its prefix. */
function frame(message: Buffer): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

/** Repeats `step` until the signal aborts, also after a failure, as on a session that has just ended. */
async function each(signal: AbortSignal, everyMs: number, step: () => void): Promise<void> {
  while (!signal.aborted) {
    try {
      step()
    } catch {} // the agent closed the session under it, which is what it is for
    await sleep(everyMs)
  }
}

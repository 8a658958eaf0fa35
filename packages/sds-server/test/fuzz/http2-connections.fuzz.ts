/** Frames of HTTP/2 in any order, whole and damaged: another caller gets its answer, and no exception is left over. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import fc from 'fast-check'
import { DiscoveryRequest } from '../../src/gen/envoy/service/discovery/v3/discovery.ts'
import { SECRET_TYPE_URL } from '../../src/protocol/response-content.ts'
import { peerNode } from '../peer-node.ts'
import { literalHeaders, PREFACE, rawFrame, uint16, uint32 } from '../raw-http2.ts'
import { RawPeer } from '../raw-peer.ts'
import { startServer, WEB } from '../running-server.ts'

let callers = 0
// Each connection is of a new caller: the faults of one would hold off the next.
const running = await startServer(
  { workloadApi: true },
  { readPeerCredentials: () => ({ pid: 1, uid: ++callers, gid: callers }) },
)
let victim = new RawPeer(running.path)
let inputsSeen = 0

const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService'
const PATHS = [`${SERVICE}/StreamSecrets`, `${SERVICE}/DeltaSecrets`, `${SERVICE}/FetchSecrets`, `${SERVICE}/Other`]
const WORKLOAD_PATHS = ['/SpiffeWorkloadAPI/FetchX509SVID', '/SpiffeWorkloadAPI/ValidateJWTSVID']
const HEALTH_PATHS = ['/grpc.health.v1.Health/Check', '/grpc.health.v1.Health/Watch', '/', '*', '']

const longText = fc.integer({ min: 1, max: 5_000 }).map(length => 'a'.repeat(length))
const text = fc.oneof({ weight: 4, arbitrary: fc.string({ maxLength: 20 }) }, { weight: 1, arbitrary: longText })
const header = fc.oneof(
  fc.tuple(fc.constantFrom(':path', ':authority', ':scheme', ':method', ':protocol', ':status', 'host'), text),
  fc.tuple(fc.constantFrom('te', 'content-type', 'content-length', 'grpc-timeout', 'grpc-encoding'), text),
  fc.tuple(fc.constant('workload.spiffe.io'), fc.constantFrom('true', 'false')),
  fc.tuple(fc.constantFrom('connection', 'transfer-encoding', 'Upper', 'x-bin', '', 'x'), text),
)
/** A request that is nearly right. */
const request = fc
  .record({
    path: fc.constantFrom(...PATHS, ...WORKLOAD_PATHS, ...HEALTH_PATHS),
    method: fc.constantFrom('POST', 'POST', 'POST', 'GET', 'CONNECT', 'OPTIONS'),
    authority: fc.oneof(fc.constant('sds'), longText),
    scheme: fc.constantFrom('http', 'http', 'https', 'a'.repeat(17)),
    contentType: fc.constantFrom('application/grpc', 'application/grpc', 'application/grpc+proto', 'text/html', ''),
    others: fc.array(header, { maxLength: 2 }),
  })
  .map(({ path, method, authority, scheme, contentType, others }) => [
    [':method', method],
    [':scheme', scheme],
    [':path', path],
    [':authority', authority],
    ['content-type', contentType],
    ...others,
  ])
const stream = fc.constantFrom(0, 1, 1, 1, 3, 3, 5, 2, 7, 2 ** 31 - 1)
const flags = fc.constantFrom(0, 0, 1, 4, 4, 5, 8, 0x20, 0xff)
const number = fc.constantFrom(0, 1, 2, 8, 65_535, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1)
const frame = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ type: fc.constant(1), flags: fc.constantFrom(4, 4, 4, 5, 0), stream, headers: request }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constantFrom(1, 5, 9),
      flags,
      stream,
      headers: fc.array(header, { maxLength: 8 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant(0),
      flags: fc.constantFrom(0, 0, 1),
      stream,
      names: fc.array(fc.constantFrom('default', 'ROOTCA', WEB, 'x'), { maxLength: 3 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ type: fc.constantFrom(3, 8), flags: fc.constant(0), stream, number }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant(4),
      flags: fc.constantFrom(0, 0, 1),
      stream: fc.constant(0),
      settings: fc.array(fc.tuple(fc.integer({ min: 0, max: 9 }), number), { maxLength: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.integer({ min: 0, max: 12 }),
      flags,
      stream,
      bytes: fc.uint8Array({ maxLength: 40 }),
    }),
  },
)

export const inputs = fc.record({
  /** Written one after the other, each at once. */
  writes: fc.array(fc.array(frame, { minLength: 1, maxLength: 6 }), { maxLength: 4 }),
  hasPreface: fc.constantFrom(true, true, true, true, true, true, true, false),
  damage: fc.option(fc.record({ at: fc.nat(400), bytes: fc.uint8Array({ minLength: 1, maxLength: 4 }) }), { freq: 8 }),
  end: fc.constantFrom('leave', 'end', 'wait'),
})

/** A server, its clients and the compiler share the thread. */
export const maxCpuMs = 200

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never
type Frame = Input['writes'][number][number]

export async function run({ writes, hasPreface, damage, end }: Input): Promise<void> {
  const socket = connect(running.path).on('error', () => {})
  await once(socket, 'connect')
  socket.resume()
  const begin = hasPreface ? [Buffer.concat([PREFACE, rawFrame(4, 0, 0, Buffer.alloc(0))])] : []
  const chunks = [...begin, ...writes.map(frames => Buffer.concat(frames.map(bytesOf)))]
  for (const chunk of chunks) {
    if (damage) Buffer.from(damage.bytes).copy(chunk, damage.at)
    if (!socket.writable) break
    await new Promise(resolve => socket.write(chunk, resolve))
  }
  if (end === 'leave') socket.destroy()
  if (end === 'end') socket.end()
  const answer = victim.open()
  answer.ask('ROOTCA')
  const { resources } = await answer.next()
  assert.equal(resources.length, 1)
  // HTTP/2 bounds the streams that a client resets.
  answer.http.end()
  await once(answer.http, 'close')
  socket.destroy()
  if (!socket.closed) await once(socket, 'close')
  await running.event('connection-closed', ({ connection }) => connection.caller?.uid === callers)
  running.events.length = 0
  if (++inputsSeen % 1_000 === 0) replaceVictim()
}

/** The clock stands still: a caller has its first burst of requests, and no more. */
function replaceVictim(): void {
  victim[Symbol.dispose]()
  victim = new RawPeer(running.path)
}

function bytesOf(sent: Frame): Buffer {
  return rawFrame(sent.type, sent.flags, sent.stream, payloadOf(sent))
}

function payloadOf(sent: Frame): Buffer {
  if ('headers' in sent) return literalHeaders(...sent.headers)
  if ('names' in sent) return message(sent.names)
  if ('settings' in sent)
    return Buffer.concat(sent.settings.map(([key, value]) => Buffer.concat([uint16(key), uint32(value)])))
  return 'number' in sent ? uint32(sent.number) : Buffer.from(sent.bytes)
}

function message(resourceNames: string[]): Buffer {
  const node = peerNode('n')
  const fields = {
    versionInfo: '',
    node,
    resourceNames,
    typeUrl: SECRET_TYPE_URL,
    responseNonce: '',
    errorDetail: undefined,
  }
  const bytes = Buffer.from(DiscoveryRequest.encode(fields).finish())
  return Buffer.concat([Buffer.from([0]), uint32(bytes.length), bytes])
}

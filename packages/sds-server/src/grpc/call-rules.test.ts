/** The rules for every call, whatever its method: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { ClientHttp2Stream, IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http2'
import { after, before, test } from 'node:test'
import { deflateSync, gzipSync } from 'node:zlib'
import { peerNode } from '../../test/peer-node.ts'
import { RawPeer, requestFrame } from '../../test/raw-peer.ts'
import { type RunningServer, startServer, WEB } from '../../test/running-server.ts'

const SDS = '/envoy.service.secret.v3.SecretDiscoveryService'
const STREAM = `${SDS}/StreamSecrets`
const FETCH = `${SDS}/FetchSecrets`
const CHECK = '/grpc.health.v1.Health/Check'
const WATCH = '/grpc.health.v1.Health/Watch'
const SVID = '/SpiffeWorkloadAPI/FetchX509SVID'
const OK = 0
const INVALID_ARGUMENT = 3
const DEADLINE_EXCEEDED = 4
const NOT_FOUND = 5
const RESOURCE_EXHAUSTED = 8
const UNIMPLEMENTED = 12
const MAX_BYTES = 4_096

const ASK = requestFrame({ resourceNames: [WEB], node: peerNode('raw') })
const EMPTY = frame(Buffer.alloc(0))
const SECURITY = { 'workload.spiffe.io': 'true' }

function frame(message: Buffer, flag = 0): Buffer {
  const head = Buffer.from([flag, 0, 0, 0, 0])
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

interface Row {
  readonly path: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: Buffer
  /** Whether the client ends its side; the server has to close a call that has its status in any case. */
  readonly isOpen?: boolean
  readonly code: number | undefined
  readonly http?: number
  readonly messages?: number
}

const ROWS: Readonly<Record<string, Row>> = {
  'a stream': { path: STREAM, body: ASK, code: OK, messages: 1 },
  'a fetch': { path: FETCH, body: ASK, code: OK, messages: 1 },
  'a health check': { path: CHECK, body: EMPTY, code: OK, messages: 1 },
  'a call of the Workload API': { path: SVID, headers: SECURITY, body: EMPTY, code: undefined, messages: 1 },
  'a call without its security header': { path: SVID, body: EMPTY, code: INVALID_ARGUMENT },
  'a method that is not served': { path: '/no.Service/Method', isOpen: true, code: UNIMPLEMENTED },
  'a stream of another content type': {
    path: STREAM,
    headers: { 'content-type': 'text/plain' },
    isOpen: true,
    code: undefined,
    http: 415,
  },
  'a fetch of another content type': {
    path: FETCH,
    headers: { 'content-type': 'application/json' },
    isOpen: true,
    code: undefined,
    http: 415,
  },
  'a content type with its format': {
    path: FETCH,
    headers: { 'content-type': 'application/grpc+proto' },
    body: ASK,
    code: OK,
    messages: 1,
  },
  'metadata that is not base64': {
    path: FETCH,
    headers: { 'trace-bin': '%%%', 'x-many': ['a', 'b'] },
    body: ASK,
    code: OK,
    messages: 1,
  },
  'a request that is compressed by gzip': {
    path: FETCH,
    headers: { 'grpc-encoding': 'gzip' },
    body: frame(gzipSync(ASK.subarray(5)), 1),
    code: OK,
    messages: 1,
  },
  'a request that is compressed by deflate': {
    path: STREAM,
    headers: { 'grpc-encoding': 'deflate' },
    body: frame(deflateSync(ASK.subarray(5)), 1),
    code: OK,
    messages: 1,
  },
  'a request that is not compressed, where it may be': {
    path: FETCH,
    headers: { 'grpc-encoding': 'snappy' },
    body: ASK,
    code: OK,
    messages: 1,
  },
  'a fetch that is compressed in another way': {
    path: FETCH,
    headers: { 'grpc-encoding': 'snappy' },
    body: frame(Buffer.from('sNaPpY'), 1),
    isOpen: true,
    code: UNIMPLEMENTED,
  },
  'a stream that is compressed in another way': {
    path: STREAM,
    headers: { 'grpc-encoding': 'snappy' },
    body: frame(Buffer.from('sNaPpY'), 1),
    isOpen: true,
    code: UNIMPLEMENTED,
  },
  'a fetch that decompresses to too much': {
    path: FETCH,
    headers: { 'grpc-encoding': 'gzip' },
    body: frame(gzipSync(Buffer.alloc(MAX_BYTES + 1)), 1),
    isOpen: true,
    code: RESOURCE_EXHAUSTED,
  },
  'a fetch over the limit': {
    path: FETCH,
    body: frame(Buffer.alloc(MAX_BYTES + 1)),
    isOpen: true,
    code: RESOURCE_EXHAUSTED,
  },
  'a stream over the limit': {
    path: STREAM,
    body: frame(Buffer.alloc(MAX_BYTES + 1)),
    isOpen: true,
    code: RESOURCE_EXHAUSTED,
  },
  'a fetch with two requests': { path: FETCH, body: Buffer.concat([ASK, ASK]), isOpen: true, code: UNIMPLEMENTED },
  'a stream with two requests at once': { path: STREAM, body: Buffer.concat([ASK, ASK]), code: OK, messages: 2 },
  'a fetch without a request': { path: FETCH, code: UNIMPLEMENTED },
  'a fetch with a part of a request': { path: FETCH, body: ASK.subarray(0, 20), code: UNIMPLEMENTED },
  'a stream without a request': { path: STREAM, code: OK },
  'a fetch of what is no request': { path: FETCH, body: frame(Buffer.from([0xff])), code: INVALID_ARGUMENT },
  'a health check of an unknown service': { path: CHECK, body: frame(Buffer.from([10, 1, 120])), code: NOT_FOUND },
  'a health check of bytes that are no message': { path: CHECK, body: frame(Buffer.from([0xff])), code: NOT_FOUND },
  'a health check of what is no request': { path: CHECK, body: frame(Buffer.alloc(600)), code: NOT_FOUND },
  'a fetch with a deadline that is none': {
    path: FETCH,
    headers: { 'grpc-timeout': '1s' },
    isOpen: true,
    code: INVALID_ARGUMENT,
  },
  'a health check with a deadline that is none': {
    path: CHECK,
    headers: { 'grpc-timeout': 'soon' },
    isOpen: true,
    code: INVALID_ARGUMENT,
  },
}

let running: RunningServer

before(async () => {
  running = await startServer({ identity: WEB, workloadApi: true, limits: { messageBytes: MAX_BYTES } })
})
after(() => running[Symbol.asyncDispose]())

function open(peer: RawPeer, { path, headers = {} }: Pick<Row, 'path' | 'headers'>): ClientHttp2Stream {
  return peer.request(path, headers).on('error', () => {})
}

/** Everything that a call is answered, until it is closed on both sides or has the messages that it waits for. */
async function answerOf(call: ClientHttp2Stream, messages: number, isEndless: boolean) {
  let headers: IncomingHttpHeaders = {}
  let trailers: IncomingHttpHeaders | undefined
  let body = Buffer.alloc(0)
  let arrived = 0
  const { promise: hasAll, resolve } = Promise.withResolvers<void>()
  call.on('response', received => {
    headers = received
  })
  call.on('trailers', received => {
    trailers = received
  })
  call.on('data', (chunk: Buffer) => {
    body = Buffer.concat([body, chunk])
    for (; body.length >= 5 && body.length >= 5 + body.readUInt32BE(1); arrived++)
      body = body.subarray(5 + body.readUInt32BE(1))
    if (isEndless && arrived === messages) resolve()
  })
  await Promise.race([hasAll, once(call, 'close')])
  return { headers, trailers, arrived }
}

for (const [what, row] of Object.entries(ROWS)) {
  const { body = Buffer.alloc(0), code, messages = 0, http = 200, isOpen = false } = row
  for (const isSplit of body.length > 0 && body.length < 90 ? [false, true] : [false])
    test(`${what}${isSplit ? ', byte by byte' : ''}: ${code ?? http}`, async () => {
      using peer = new RawPeer(running.path)
      const call = open(peer, row)
      const isEndless = code === undefined && http === 200
      const answer = answerOf(call, messages, isEndless)
      const pieces = isSplit ? [...body].map(byte => Buffer.from([byte])) : [body]
      for (const piece of pieces) {
        if (piece.length > 0 && !call.destroyed) call.write(piece)
        if (isSplit) await peer.pinged()
      }
      if (!isOpen) call.end()
      const { headers, trailers, arrived } = await answer
      call.close()
      assert.deepEqual([headers[':status'], arrived], [http, messages])
      if (http !== 200) return
      assert.match(String(headers['content-type']), /^application\/grpc/)
      assert.equal(headers['grpc-accept-encoding'], 'identity,deflate,gzip')
      const status = (messages > 0 ? trailers : headers)?.['grpc-status']
      assert.equal(status === undefined ? undefined : Number(status), code)
    })
}

for (const path of [STREAM, FETCH, WATCH])
  test(`the deadline of ${path.split('/')[2]} ends it with DEADLINE_EXCEEDED`, async () => {
    using peer = new RawPeer(running.path)
    const call = open(peer, { path, headers: { 'grpc-timeout': '500m' } })
    const answer = answerOf(call, 0, false)
    if (path === FETCH) call.write(ASK)
    if (path === WATCH) call.end(EMPTY)
    await peer.pinged()
    await running.source.clock.advance(500)
    const { headers, trailers } = await answer
    assert.equal(Number((trailers ?? headers)['grpc-status']), DEADLINE_EXCEEDED)
  })

test('nothing of these calls is left', async () => {
  using peer = new RawPeer(running.path)
  await peer.pinged()
  assert.deepEqual([running.streams(), running.server.sockets()[0]?.streams], [[], 0])
  const [caller] = running.server.callers()
  assert.equal(caller?.streams, 0)
})

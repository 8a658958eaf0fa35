/** Streams that cannot be answered, since they are closed or no calls: they end alone, and not the process. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants } from 'node:http2'
import { connect } from 'node:net'
import { test } from 'node:test'
import { BEGIN, END_HEADERS, FRAME, grpcHeaders, rawFrame } from '../../test/raw-http2.ts'
import { RawPeer } from '../../test/raw-peer.ts'
import { startServer } from '../../test/running-server.ts'
import { namesOf } from '../../test/sds-client.ts'

const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService'
const RESET = rawFrame(FRAME.reset, 0, 1, Buffer.from([0, 0, 0, 8]))

const METHOD = `${SERVICE}/StreamSecrets`
const LONG_AUTHORITY = 'a'.repeat(256)

const UNFIT: readonly (readonly [name: string, path: string, authority: string, contentType: string])[] = [
  ['with a long authority of an unknown method', '/no/method', LONG_AUTHORITY, 'application/grpc'],
  ['with a long authority of another content type', METHOD, LONG_AUTHORITY, 'text/html'],
  ['with a long authority', METHOD, LONG_AUTHORITY, 'application/grpc'],
  ['of another content type', METHOD, 'sds', 'text/html'],
  ['of an unknown method', '/no/method', 'sds', 'application/grpc'],
]

for (const [name, path, authority, contentType] of UNFIT) {
  test(`a stream ${name} ends alone`, async () => {
    await using running = await startServer()
    using peer = new RawPeer(running.path)
    const unfit = peer.session
      .request({
        ':method': 'POST',
        ':path': path,
        ':authority': authority,
        'content-type': contentType,
        te: 'trailers',
      })
      .on('error', () => {})
      .resume()
    const beside = peer.open()
    beside.ask('ROOTCA')
    await new Promise(resolve => unfit.once('close', resolve))
    assert.deepEqual(namesOf(await beside.next()), ['ROOTCA'])
  })
}

for (const method of ['HEAD', 'GET', 'CONNECT']) {
  test(`a ${method} is no call, and ends alone`, async () => {
    await using running = await startServer()
    using peer = new RawPeer(running.path)
    const target = method === 'CONNECT' ? { ':authority': 'sds' } : { ':path': METHOD }
    const headers = { ':method': method, ...target, 'content-type': 'application/grpc' }
    const unfit = peer.session.request(headers, { endStream: false }).on('error', () => {})
    const beside = peer.open()
    beside.ask('ROOTCA')
    await new Promise(resolve => unfit.resume().once('close', resolve))
    assert.equal(unfit.rstCode, constants.NGHTTP2_PROTOCOL_ERROR)
    assert.deepEqual(namesOf(await beside.next()), ['ROOTCA'])
    assert.equal(running.streams().length, 1)
  })
}

for (const path of ['/no/method', METHOD]) {
  test(`a stream of ${path} that is reset behind its headers ends alone`, async () => {
    await using running = await startServer()
    const socket = connect(running.path).on('error', () => {})
    socket.write(Buffer.concat([BEGIN, rawFrame(FRAME.headers, END_HEADERS, 1, grpcHeaders(path)), RESET]))
    await once(socket, 'data')
    const stream = running.connect().sotw()
    stream.ask('ROOTCA')
    assert.deepEqual(namesOf(await stream.next()), ['ROOTCA'])
    socket.destroy()
  })
}

/** Servers that begin an answer and never come to its end: each costs its caller a bounded number of bytes. */
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { listening, portOf } from '@livery/test-support'
import { isCAError } from '../../test/citadel-setup.ts'
import { HttpsJson } from './https-json.ts'

const action = 'get a certificate'
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'
const MIB = 1_048_576

/** Answers each request with `first`, then with `again` for as long as anybody reads. */
async function serve(t: TestContext, first: string, again = '') {
  const sockets = new Set<Socket>()
  let sent = 0
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    const pump = (): void => {
      while (!socket.destroyed && again !== '') {
        sent += again.length
        if (!socket.write(again)) return
      }
    }
    socket.on('drain', pump)
    socket.on('data', () => {
      socket.write(first)
      pump()
    })
  })
  await listening(server)
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { address: `http://127.0.0.1:${portOf(server)}`, sent: () => sent }
}

async function ask(t: TestContext, first: string, again?: string) {
  const server = await serve(t, first, again)
  const client = new HttpsJson({ address: server.address, tls: undefined, clock: new FakeClock(), timeoutMs: 60_000 })
  t.after(() => client[Symbol.asyncDispose]())
  // The timeout of the test ends a call that does not end by itself.
  return { answer: client.request({ action, path: 'x', signal: t.signal }), sent: server.sent }
}

const interim = (status: string, headers = '') => `HTTP/1.1 ${status}\r\n${headers}\r\n`

for (const [what, text] of Object.entries({
  'that say to continue': interim('100 Continue').repeat(50),
  'that say that it works on it': interim('102 Processing').repeat(50),
  'with headers': interim('103 Early Hints', 'link: </a.css>; rel=preload\r\n'.repeat(20)),
  'with the longest headers': interim('103 Early Hints', `link: ${'a'.repeat(15_000)}\r\n`),
}))
  test(`endless interim answers ${what} end the call`, { timeout: 20_000 }, async t => {
    const { answer, sent } = await ask(t, '', text)
    await assert.rejects(
      answer,
      isCAError('unavailable', /more than 16 interim answers \(1xx\) or 65536 bytes of them/),
    )
    assert.ok(sent() < 4 * MIB, `${sent()} bytes`)
  })

test('sixteen interim answers are passed over, on each call of a connection', async t => {
  const { answer } = await ask(t, interim('103 Early Hints', 'link: </a.css>\r\n').repeat(16) + ANSWER)
  assert.equal((await answer).status, 200)
})

test('an answer that changes the protocol ends the call', { timeout: 20_000 }, async t => {
  const { answer } = await ask(t, 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n')
  await assert.rejects(answer, isCAError('unavailable'))
})

const CHUNKED = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n'

for (const [what, first, again] of [
  ['a header', 'HTTP/1.1 200 OK\r\nx: ', 'a'.repeat(1_000)],
  ['headers', 'HTTP/1.1 200 OK\r\n', 'x: a\r\n'.repeat(100)],
  ['the extension of a chunk', `${CHUNKED}1;x=`, 'a'.repeat(1_000)],
  ['chunks with extensions', CHUNKED, `1;x=${'a'.repeat(1_000)}\r\na\r\n`],
  ['trailers', `${CHUNKED}0\r\n`, 'x: a\r\n'.repeat(100)],
] as const)
  test(`${what} without an end is bounded`, { timeout: 20_000 }, async t => {
    const { answer, sent } = await ask(t, first, again)
    await assert.rejects(answer, isCAError(/chunks/.test(what) ? 'bad-response' : 'unavailable'))
    assert.ok(sent() < 16 * MIB, `${sent()} bytes`)
  })

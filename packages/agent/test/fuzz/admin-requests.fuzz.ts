/** Raw bytes to the admin port: whatever they are, the next caller gets its answer, and nothing secret is in what went out. */
import assert from 'node:assert/strict'
import { SecretManager } from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import fc from 'fast-check'
import { AdminServer } from '../../src/admin/admin-server.ts'
import { pageRoutes } from '../../src/page/page-answers.ts'
import { getRequest, openSocket, readAll } from '../admin-socket.ts'
import { adminSource } from '../admin-source.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const clock = new FakeClock()
const keyGenerator = new TestKeyGenerator()
const secrets = new SecretManager({
  ca: await TestCA.create(clock),
  clock,
  keyGenerator,
  trustDomain: 'cluster.local',
})
secrets.add(WEB)
await secrets.get({ kind: 'identity', identity: WEB }, { signal: new AbortController().signal })
const source = adminSource({ secrets, clock, keyGenerator })
let failure: unknown
const server = await AdminServer.listen({
  routes: 'admin',
  makeRoutes: pageRoutes,
  address: { host: '127.0.0.1', port: 0 },
  source,
  onError: error => {
    failure = error
  },
})

const METHODS = ['GET', 'PUT', 'POST', 'HEAD', 'OPTIONS', 'CONNECT', 'TRACE', 'get', '']
const PATHS = [
  '/',
  '/page/state',
  '/page/events',
  '/page/token',
  '/page/app.js',
  '/config_dump',
  '/metrics',
  '/healthz/live',
  '/healthz/ready?strict',
  '/renew?name=spiffe://cluster.local/ns/default/sa/web',
  '/trust?action=hold&root=0123456789abcdef',
  '/logging?level=debug',
  '/logging?level=%',
  '/explain?name=ROOTCA',
  '/explain?name=%00&name=x',
  '//',
  '/../etc',
  '*',
  'http://x/',
  '/%2e%2e',
]
const HEADERS = [
  'accept: text/html',
  'x-livery-page: x',
  'host: 127.0.0.1',
  'host: evil.example',
  'host: 127.0.0.1\r\nhost: x',
  'content-length: 5',
  'content-length: -1',
  'content-length: 99999999999',
  'transfer-encoding: chunked',
  'expect: 100-continue',
  'connection: upgrade\r\nupgrade: h2c',
  'origin: http://evil.example',
  'sec-fetch-site: cross-site',
  ': x',
  'a b: c',
  'x: \u0000',
]
const text = fc.oneof(fc.string({ maxLength: 30 }), fc.string({ unit: 'binary', maxLength: 30 }))
const request = fc
  .record({
    method: fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...METHODS) }, { weight: 1, arbitrary: text }),
    path: fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...PATHS) }, { weight: 1, arbitrary: text }),
    headers: fc.array(fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...HEADERS) }, { weight: 1, arbitrary: text }), {
      maxLength: 5,
    }),
    times: fc.constantFrom(1, 1, 1, 200),
    body: fc.oneof(fc.constant(''), text),
  })
  .map(({ method, path, headers, times, body }) =>
    [`${method} ${path} HTTP/1.1`, ...Array<string[]>(times).fill(headers).flat(), '', body].join('\r\n'),
  )

export const inputs = fc.array(fc.oneof({ weight: 5, arbitrary: request }, { weight: 1, arbitrary: text }), {
  minLength: 1,
  maxLength: 4,
})
/** Both ends, and a request beside it that has to be answered. */
export const maxCpuMs = 100

export async function run(parts: readonly string[]): Promise<void> {
  const hostile = await openSocket(server.address)
  let answer = ''
  hostile.setEncoding('latin1').on('data', (data: string) => {
    answer += data
  })
  const closed = new Promise<void>(resolve => hostile.on('close', () => resolve()))
  for (const part of parts) if (!hostile.destroyed) hostile.write(part, 'latin1')
  const probe = await openSocket(server.address)
  probe.write(getRequest('/healthz/live'))
  const live = await readAll(probe)
  assert.match(live, /^HTTP\/1\.1 200 /)
  hostile.destroy()
  await closed
  assert.doesNotMatch(answer, /PRIVATE KEY/)
  const cause = failure
  failure = undefined
  if (cause !== undefined) throw new Error('the server reports a fault of its own', { cause })
}

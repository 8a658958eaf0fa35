/** Answers that are too long, through the whole path: gRPC, plugin, checks. Envoy would accept them, and then no handshake works. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SecretManager } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import { makeIssuer, TestKeyGenerator } from '@livery/core/testing'
import { API, createCitadel, WEB } from '../../../test/citadel-setup.ts'
import { FaultyCaServer } from '../../testing/faulty-ca-server.ts'
import { pluginContext } from '../../testing/plugin-context.ts'

/** Each under the one before. */
async function row(length: number): Promise<string[]> {
  const issuers = [await makeIssuer('CN=0', Date.now())]
  while (issuers.length < length) issuers.push(await makeIssuer(`CN=${issuers.length}`, Date.now(), issuers.at(-1)))
  return issuers.map(({ pem }) => pem).reverse()
}

const hundred = await row(100)
const [one = ''] = hundred
const padded = one.replace('-----BEGIN', `${'x'.repeat(70_000)}\n-----BEGIN`)

const answers: Record<string, (chain: readonly string[]) => readonly string[]> = {
  'a chain that is 100 deep': ([leaf = '', ...rest]) => [leaf, ...hundred, ...rest],
  'a chain of 10,000 certificates': ([leaf = '', ...rest]) => [leaf, ...Array<string>(10_000).fill(one), ...rest],
  'a chain of 6 MB in few elements': ([leaf = '', ...rest]) => [
    leaf,
    ...Array<string>(3).fill(one.repeat(4_000)),
    ...rest,
  ],
  'a chain with 70 kB between its certificates': ([leaf = '', ...rest]) => [leaf, padded.repeat(9), ...rest],
  '200,000 empty elements': ([leaf = '', ...rest]) => [leaf, ...Array<string>(200_000).fill(''), ...rest],
}

for (const [what, chain] of Object.entries(answers))
  test(`${what} replaces nothing, is reported with its reason, and delays nothing`, async () => {
    await using server = await FaultyCaServer.start()
    const clock = new SystemClock()
    const rootCert = server.authority.trustBundle().join('')
    await using ca = await createCitadel({ address: server.address, rootCert }, pluginContext({ clock }))
    const failed = Promise.withResolvers<string>()
    await using manager = new SecretManager({
      ca,
      clock,
      keyGenerator: new TestKeyGenerator(),
      trustDomain: 'cluster.local',
    })
    manager.events.subscribe(({ name, event }) => {
      if (name === API && event.kind === 'issued') failed.reject(new Error('it was accepted'))
      if (name === API && event.kind === 'ca-error') failed.resolve(event.code)
    })
    manager.add(WEB)
    const secret = { kind: 'identity', identity: WEB } as const
    const good = await manager.get(secret, { signal: AbortSignal.timeout(10_000) })
    const bundle = manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
    server.behaviour = { kind: 'sign', chain }
    const start = process.threadCpuUsage()
    manager.add(API)
    assert.match(await failed.promise, /^(bad-response|rate-limited|unavailable)$/)
    const { user, system } = process.threadCpuUsage(start)
    assert.ok(user + system < 2_000_000, `${user + system} µs of CPU, both ends`)
    assert.equal(manager.current({ kind: 'identity', identity: API }), undefined)
    assert.equal(manager.current(secret), good)
    assert.equal(manager.current({ kind: 'bundle', trustDomain: 'cluster.local' }), bundle)
  })

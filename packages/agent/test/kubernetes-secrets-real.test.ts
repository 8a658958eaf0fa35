/** What happens to Secrets at a real API server, which LIVERY_KUBE names: the right to read them is lost, the server goes away, they are deleted, broken and large. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock, type IssuedPair, PairIssuer } from '@livery/core/testing'
import { until } from './envoy-bench.ts'
import { noKube } from './kube-admin.ts'
import { noMounts } from './launchers.ts'
import { openStream } from './sds-client.ts'
import { real } from './secret-clusters.ts'

/** A Secret has up to 1 MiB. */
const LARGE = 1_000_000

test('what was read is served while a real API server refuses, is away, or has a Secret that is broken, and the next one as soon as it can be had', {
  skip: noKube || noMounts,
}, async t => {
  const { cluster, node, way, role } = await real(t)
  const { namespace } = cluster
  const issuer = await PairIssuer.create(new FakeClock(Date.now()))
  const pairs: IssuedPair[] = []
  const put = async (rest: Readonly<Record<string, string>> = {}): Promise<IssuedPair> => {
    const pair = await issuer.issue('spiffe://cluster.local/ns/edge/sa/gateway')
    pairs.push(pair)
    await cluster.put('web', { 'tls.crt': pair.chain.join(''), 'tls.key': pair.key, ...rest })
    return pair
  }
  const first = await put()
  await node.configure({
    kubernetes: undefined,
    kubernetesSecrets: { namespaces: [namespace] },
    sockets: [{ path: 'sds.sock', allow: [`kubernetes://${namespace}/*`] }],
  })
  const agent = node.start()
  await agent.admin()
  const name = `kubernetes://${namespace}/web`
  using stream = await openStream(node.socket, [name])
  const serves = ({ chain }: IssuedPair) =>
    until('it is served', async () => {
      const last = stream.answers.at(-1)?.at(-1)
      return last?.certificateChain === chain.join('') || undefined
    })
  const servesANewcomer = async ({ chain }: IssuedPair) => {
    using newcomer = await openStream(node.socket, [name])
    assert.equal(newcomer.secrets[0]?.certificateChain, chain.join(''))
  }
  await serves(first)

  await role.revoke()
  const second = await put()
  await agent.line(/"event":"files-unusable".*HTTP 403.*Grant the verb get on secrets to this user by a Role/)
  await servesANewcomer(first)
  await role.grant()
  await serves(second)

  await way.cut()
  await agent.line(/a change of a Secret is not seen at present/)
  const third = await put()
  await servesANewcomer(second)
  await way.mend()
  await serves(third)

  await cluster.put('web', { 'tls.crt': 'x'.repeat(LARGE) })
  await agent.line(/"event":"files-unusable".*tls\.crt of the Secret/)
  await servesANewcomer(third)
  const large = await put({ other: 'x'.repeat(LARGE - 10_000) })
  await serves(large)

  await cluster.delete('web')
  await agent.line(/"event":"withdrawn".*its Secret was deleted/)
  await serves(await put())

  const printed = agent.stderr
  for (const { key } of pairs) {
    const [, secret = ''] = key.split('\n')
    assert.ok(!printed.includes(secret) && !printed.includes(Buffer.from(key).toString('base64').slice(0, 60)))
  }
})

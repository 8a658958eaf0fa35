/** Kubernetes Secrets through the agent to a listener of a real Envoy with two servers' names: at a stand-in of the API server, and at a real one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock, type IssuedPair, PairIssuer } from '@livery/core/testing'
import { freePort } from '@livery/test-support'
import { deployed, Envoy, noEnvoy, type Tree, until } from './envoy-bench.ts'
import { noKube } from './kube-admin.ts'
import { noMounts } from './launchers.ts'
import { connect, openStream } from './sds-client.ts'
import { real, standIn } from './secret-clusters.ts'
import { serial, serialOf } from './shown-certificate.ts'

const ID = 'spiffe://cluster.local/ns/edge/sa/gateway'

function ofTls({
  chain,
  key,
}: {
  readonly chain: readonly string[]
  readonly key: string
}): Readonly<Record<string, string>> {
  return { 'tls.crt': chain.join(''), 'tls.key': key }
}

for (const [where, isMissing, open] of [
  ['a stand-in of the API server', false, standIn],
  ['a real API server', noKube, real],
] as const)
  test(`an Envoy with two servers' names follows their Secrets at ${where}: rotated, broken, mended, deleted`, {
    skip: isMissing || noEnvoy || noMounts,
  }, async t => {
    const { cluster, node } = await open(t)
    const { namespace } = cluster
    const issuer = await PairIssuer.create(new FakeClock(Date.now()))
    const issue = () => issuer.issue(ID)
    const [web, shop, client] = [await issue(), await issue(), await issue()]
    await cluster.put('web', ofTls(web))
    await cluster.put('shop', { cert: shop.chain.join(''), key: shop.key, cacert: issuer.root })
    await node.configure({
      kubernetes: undefined,
      kubernetesSecrets: { namespaces: [namespace] },
      files: { names: { 'sds://shop': `kubernetes://${namespace}/shop` } },
      sockets: [
        {
          path: 'sds.sock',
          allow: ['spiffe://cluster.local/**', `kubernetes://${namespace}/*`, 'kubernetes://kube-system/*'],
        },
      ],
    })
    const agent = node.start()
    await agent.admin()
    const port = await freePort()
    const ports = new Map([
      [9903, await freePort()],
      [10_443, port],
    ])
    const config = JSON.stringify(await deployed('gateway', { socket: node.socket, ports }))
    const ofNamespace: Tree = JSON.parse(config.replaceAll('kubernetes://edge/', `kubernetes://${namespace}/`))
    await using envoy = await Envoy.start(node.cwd, 'gateway', ofNamespace)
    await envoy.live()
    const own = { cert: client.chain.join(''), key: client.key }
    const shows = (pair: IssuedPair, host: string) =>
      until(`${host} has its certificate`, async () => {
        const shown = await serialOf(port, host, own)
        return shown === serial(pair) || undefined
      })
    await shows(web, 'web.example')
    await shows(shop, 'shop.example')
    // Its roots are in force: who has no certificate of theirs is refused.
    await assert.rejects(serialOf(port, 'shop.example'))

    const rotated = await issue()
    await cluster.put('web', ofTls(rotated))
    await shows(rotated, 'web.example')

    const next = await issue()
    await cluster.put('shop', { cert: next.chain.join(''), key: web.key })
    await agent.line(
      /"event":"files-unusable",.*its key does not match the first certificate in cert of the Secret \S+\/shop\./,
    )
    await shows(shop, 'shop.example')
    await cluster.put('shop', { key: next.key })
    await cluster.put('shop', { cert: next.chain.join(''), key: next.key, cacert: issuer.root })
    await shows(next, 'shop.example')

    // As the Envoy of an Istio gateway asks.
    using credential = await openStream(node.socket, ['sds://shop'])
    assert.deepEqual(
      credential.secrets.map(({ name, certificateChain }) => [name, certificateChain]),
      [['sds://shop', next.chain.join('')]],
    )

    for (const [name, reason] of [
      [
        'kubernetes://kube-system/web',
        /"event":"refused".*kube-system, which kubernetesSecrets\.namespaces does not name/,
      ],
      ['kubernetes://other/web', /"event":"refused".*this caller is not allowed this Secret/],
    ] as const) {
      using stream = await openStream(node.socket, [name])
      assert.deepEqual(stream.secrets, [])
      await agent.line(reason)
    }
    if (where === 'a real API server') {
      // The role does not name it.
      using client = connect(node.socket)
      void client.fetch([`kubernetes://${namespace}/hidden`]).catch(() => {})
      await agent.line(
        /"event":"files-unusable".*hidden.*HTTP 403.*Grant the verb get on secrets to this user by a Role/,
      )
    }

    await cluster.delete('web')
    await agent.line(/"event":"withdrawn".*its Secret was deleted/)
    const printed = agent.stderr
    for (const { key } of [web, shop, rotated, next]) {
      const secret = key.split('\n')[1] ?? ''
      assert.ok(!printed.includes(secret) && !printed.includes(Buffer.from(key).toString('base64').slice(0, 60)))
    }
  })

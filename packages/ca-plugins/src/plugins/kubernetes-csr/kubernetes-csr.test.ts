/** The plugin at any API server: the same tests at the stand-in, and at a real one where LIVERY_KUBE names its kubeconfig. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  derToPem,
  type IssuedCertificate,
  type SpiffeId,
} from '@livery/core/plugin'
import type { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { isCAError } from '../../../test/citadel-setup.ts'
import { CuttableProxy } from '../../../test/cuttable-proxy.ts'
import {
  documentedGrants,
  type KubeCluster,
  noRealCluster,
  realCluster,
  standInCluster,
} from '../../../test/kube-clusters.ts'
import { openClient, SIGNER, TestTicket } from '../../../test/kube-setup.ts'
import { runAgainst } from '../../conformance/run-against.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { kubernetesCsr } from './index.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
/** RFC 5280, section 4.2.1.12. */
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2'
const NEEDED = await documentedGrants()

for (const [where, setUp, skip] of [
  ['stand-in', standInCluster, false],
  ['real API server', realCluster, noRealCluster],
] as const)
  contract((name, run) => test(`${where}: ${name}`, { skip }, async t => run(t, await setUp(t))))

type Contract = (name: string, run: (t: TestContext, cluster: KubeCluster) => Promise<void>) => unknown

function contract(that: Contract): void {
  that('a request is approved and signed while it is waited for', async (t, { kubeconfig, signer, authority }) => {
    const { client, clock } = await openClient(t, { kubeconfig })
    const request = await workloadRequest(WEB, { ttlSeconds: 7200 })
    const ticket = new TestTicket()
    const issuing = client.issue({ ...request, ticket })
    const name = await ticket.name()
    assert.match(name, /^livery-[0-9a-f]{40}$/)
    const { spec } = await signer.read(name)
    assert.equal(spec.signerName, SIGNER)
    assert.equal(spec.expirationSeconds, 7200)
    assert.deepEqual(spec.usages, ['digital signature', 'server auth', 'client auth'])
    assert.equal(Buffer.from(spec.request, 'base64').toString(), request.csrPem)
    await signer.approve(name)
    await signer.sign(name)
    const { chain, roots, privateKey } = await issuing
    const [leaf, intermediate] = chain.map(pem => new X509Certificate(pem))
    assert.equal(leaf?.subjectAltName, `URI:${WEB}`)
    assert.ok(leaf.checkPrivateKey(createPrivateKey(request.privateKeyPem)))
    assert.ok(intermediate && leaf.checkIssued(intermediate))
    assert.ok(intermediate.checkIssued(new X509Certificate(authority.trustBundle()[0] ?? '')))
    assert.deepEqual([roots, privateKey], [undefined, undefined])
    assert.deepEqual(clock.deadlines(), [])
  })

  that('a wish of less than ten minutes asks for ten, the least that the API takes', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const ticket = new TestTicket()
    const issuing = client.issue({ ...(await workloadRequest(WEB, { ttlSeconds: 30 })), ticket })
    const name = await ticket.name()
    assert.equal((await cluster.signer.read(name)).spec.expirationSeconds, 600)
    await cluster.signer.approve(name)
    await cluster.signer.sign(name)
    await issuing
  })

  that('a pending request is found again by its ticket after a restart, not made again', async (t, cluster) => {
    const { signer } = cluster
    const request = await workloadRequest(WEB)
    const ticket = new TestTicket()
    const first = await openClient(t, cluster)
    const stopped = assert.rejects(first.client.issue({ ...request, ticket }), /its client is closed/)
    const name = await ticket.name()
    await first.client[Symbol.asyncDispose]()
    await stopped
    assert.ok(ticket.stored)
    const second = await openClient(t, cluster)
    const issuing = second.client.issue({ ...request, ticket })
    await signer.approve(name)
    await signer.sign(name)
    const { chain } = await issuing
    assert.ok(new X509Certificate(chain[0] ?? '').checkPrivateKey(createPrivateKey(request.privateKeyPem)))
    assert.deepEqual(await signer.requestsFor(request.csrPem), [name])
  })

  that('a request that was signed while nobody waited is taken at once', async (t, cluster) => {
    const { signer } = cluster
    const request = await workloadRequest(WEB)
    const ticket = new TestTicket()
    const { client } = await openClient(t, cluster)
    const nobody = new AbortController()
    const given = assert.rejects(client.issue({ ...request, ticket, signal: nobody.signal }), /nobody waits/)
    const name = await ticket.name()
    nobody.abort(new Error('nobody waits'))
    await given
    await signer.approve(name)
    await signer.sign(name)
    assert.equal((await client.issue({ ...request, ticket })).chain.length, 2)
  })

  that('a denied request is denied with its reason, and its ticket dropped', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const ticket = new TestTicket()
    const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
    const denied = assert.rejects(
      issuing,
      isCAError('denied', /was denied: Test: not in this house\. Ask the approver/),
    )
    await cluster.signer.deny(await ticket.name(), 'not in this house')
    await denied
    assert.equal(ticket.stored, undefined)
  })

  that('a request that the signer fails is invalid-csr, or ttl-too-long by its words', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    for (const [message, code] of [
      ['the key is too small', 'invalid-csr'],
      ['expirationSeconds is over the maximum', 'ttl-too-long'],
    ] as const) {
      const ticket = new TestTicket()
      const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
      const failed = assert.rejects(
        issuing,
        isCAError(code, new RegExp(`did not sign .*SignerValidationFailure: ${message}`)),
      )
      const name = await ticket.name()
      await cluster.signer.approve(name)
      await cluster.signer.fail(name, message)
      await failed
      assert.equal(ticket.stored, undefined)
    }
  })

  that('a request that is deleted while it is waited for is reported, and its ticket dropped', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const ticket = new TestTicket()
    const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
    const deleted = assert.rejects(issuing, isCAError('unavailable', /was deleted before it was signed/))
    await cluster.signer.delete(await ticket.name())
    await deleted
    assert.equal(ticket.stored, undefined)
  })

  that('a request that was replaced by another of its name is not taken', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const { name, request, ticket } = await leavePending(client)
    const { spec } = await cluster.signer.read(name)
    await cluster.signer.delete(name)
    await cluster.signer.api.createCertificateSigningRequest({ body: { metadata: { name }, spec } })
    await assert.rejects(
      client.issue({ ...request, ticket }),
      isCAError('bad-response', /was deleted, and another one made by that name/),
    )
    assert.equal(ticket.stored, undefined)
  })

  that('a name that is taken by the request of somebody else is left alone', async (t, cluster) => {
    const { signer } = cluster
    const { client } = await openClient(t, cluster)
    const { name, request } = await leavePending(client)
    const { spec } = await signer.read(name)
    await signer.delete(name)
    const foreign = Buffer.from((await workloadRequest(WEB)).csrPem).toString('base64')
    await signer.api.createCertificateSigningRequest({
      body: { metadata: { name }, spec: { ...spec, request: foreign } },
    })
    await signer.approve(name)
    await signer.sign(name)
    const ticket = new TestTicket()
    const issuing = client.issue({ ...request, ticket })
    const own = await ticket.name()
    assert.match(own, new RegExp(`^${name}-.{5}$`))
    await signer.approve(own)
    await signer.sign(own)
    const { chain } = await issuing
    assert.ok(new X509Certificate(chain[0] ?? '').checkPrivateKey(createPrivateKey(request.privateKeyPem)))
  })

  that('a ticket of another key or another signer is not followed', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const { name, ticket } = await leavePending(client)
    const other = await workloadRequest(WEB)
    const issuing = client.issue({ ...other, ticket })
    while ((await ticket.name()) === name) await new Promise(setImmediate)
    const own = await ticket.name()
    await cluster.signer.approve(own)
    await cluster.signer.sign(own)
    assert.equal((await issuing).chain.length, 2)
  })

  that('nobody decides within the approval timeout: timeout, and the request is found again', async (t, cluster) => {
    const { signer } = cluster
    const { client, clock } = await openClient(t, cluster)
    const request = await workloadRequest(WEB)
    const ticket = new TestTicket()
    const issuing = client.issue({ ...request, ticket })
    const undecided = assert.rejects(
      issuing,
      isCAError('timeout', /neither approved nor denied within 900 s\. Approve it \(kubectl/),
    )
    const name = await ticket.name()
    await clock.advance(900_000)
    await undecided
    await signer.approve(name)
    await assert.rejects(
      client.issue({ ...request, ticket }),
      isCAError('timeout', /is approved, but was not signed within 900 s\. See that the controller of/),
    )
    await signer.sign(name)
    assert.equal((await client.issue({ ...request, ticket })).chain.length, 2)
  })

  that('connections that are cut while it waits do not cost the request', async (t, cluster) => {
    await using proxy = await CuttableProxy.start(cluster.port)
    const kubeconfig = join(temporaryFolder(t), 'config')
    const text = await readFile(cluster.kubeconfig, 'utf8')
    await writeFile(kubeconfig, text.replaceAll(`:${cluster.port}`, `:${proxy.port}`))
    const { client, clock } = await openClient(t, { kubeconfig })
    const ticket = new TestTicket()
    const request = await workloadRequest(WEB)
    const issuing = issueAsCore(client, { ...request, ticket })
    const name = await ticket.name()
    const waited = keepWaiting(clock, issuing)
    proxy.cut()
    await cluster.signer.approve(name)
    proxy.cut()
    await cluster.signer.sign(name)
    await waited
    assert.equal((await issuing).chain.length, 2)
    assert.deepEqual(await cluster.signer.requestsFor(request.csrPem), [name])
  })

  that('what the page of the plugin grants is enough', async (t, cluster) => {
    const { client } = await openClient(t, { kubeconfig: await cluster.userWith(NEEDED) })
    const { name, request, ticket } = await leavePending(client)
    const issuing = client.issue({ ...request, ticket })
    await cluster.signer.approve(name)
    await cluster.signer.sign(name)
    assert.equal((await issuing).chain.length, 2)
  })

  for (const verb of ['create', 'list', 'watch'] as const)
    that(`without the verb ${verb} it is denied, with the right to grant`, async (t, cluster) => {
      const resource = 'certificatesigningrequests'
      const rest = NEEDED.map(({ verbs, ...grant }) => ({ ...grant, verbs: verbs.filter(each => each !== verb) }))
      const kubeconfig = await cluster.userWith(rest)
      const { client } = await openClient(t, { kubeconfig })
      const denied = isCAError('denied', new RegExp(`forbidden: User .*Grant the verb ${verb} on ${resource} in cert`))
      const request = await workloadRequest(WEB)
      // Each with a request that is there already, so that it is looked for.
      const ticket = new TestTicket()
      if (verb === 'list') {
        const allowed = await openClient(t, cluster)
        ticket.stored = (await leavePending(allowed.client, request)).ticket.stored
      }
      await assert.rejects(client.issue({ ...request, ticket }), denied)
    })

  that('a token that nobody knows is unauthenticated', async (t, cluster) => {
    const { client } = await openClient(t, cluster, {
      credentials: { description: 'the token of the test', get: async () => ({ token: 'a.wrong.token' }) },
    })
    await assert.rejects(
      client.issue(await workloadRequest(WEB)),
      isCAError('unauthenticated', /HTTP 401.*Renew the token/),
    )
  })

  that('usages that the API does not know are invalid-csr, and named', async (t, cluster) => {
    const { client } = await openClient(t, { ...cluster, usages: ['juggling'] })
    await assert.rejects(
      client.issue(await workloadRequest(WEB)),
      isCAError('invalid-csr', /HTTP 422: .*juggling.* Set usages/),
    )
  })

  that('bytes that are not a CSR are invalid-csr', async (t, cluster) => {
    const { client } = await openClient(t, cluster)
    const der = Buffer.from('no CSR')
    const request = {
      ...(await workloadRequest(WEB)),
      csr: async () => ({ der, pem: derToPem(der, 'CERTIFICATE REQUEST') }),
    }
    await assert.rejects(client.issue(request), isCAError('invalid-csr', /HTTP (400|422)/))
  })

  that('the trust bundle is that of a ClusterTrustBundle', async (t, cluster) => {
    let name: string
    try {
      name = await cluster.trustBundle(t)
    } catch (error) {
      if (Object(error).code !== 404) throw error
      return t.skip('this API server does not serve ClusterTrustBundles')
    }
    const grants = [{ resource: 'clustertrustbundles', verbs: ['get'] }] as const
    const kubeconfig = await cluster.userWith(grants)
    const { client } = await openClient(t, { kubeconfig, clusterTrustBundle: name })
    const signal = new AbortController().signal
    assert.deepEqual(await client.trustBundle?.({ signal }), cluster.authority.trustBundle())
    const other = await openClient(t, { kubeconfig, clusterTrustBundle: `${name}-other` })
    await assert.rejects(
      Promise.resolve(other.client.trustBundle?.({ signal })),
      isCAError('unavailable', /HTTP 404: .*not found\. Create the ClusterTrustBundle/),
    )
  })

  that('the cases of the conformance kit for a live CA hold', async (t, cluster) => {
    await using _running = cluster.signer.run()
    const signerRoots = join(temporaryFolder(t), 'roots.pem')
    await writeFile(signerRoots, cluster.authority.trustBundle().join(''))
    const { client } = await openClient(t, { kubeconfig: cluster.kubeconfig, signerRoots })
    const { results, failed } = await runAgainst(client, {
      capabilities: kubernetesCsr.capabilities,
      identities: [WEB, `${WEB}-2`],
    })
    assert.equal(failed, 0, results.flatMap(({ name, detail }) => (detail ? [`${name}: ${detail}`] : [])).join('\n'))
  })

  that('sixty-four at once each get their own certificate', async (t, cluster) => {
    await using _running = cluster.signer.run()
    const { client } = await openClient(t, cluster)
    const requests = await Promise.all(Array.from({ length: 64 }, (_, i) => workloadRequest(`${WEB}-${i}`)))
    const issued = await Promise.all(requests.map(request => client.issue(request)))
    for (const [index, { chain }] of issued.entries()) {
      const leaf = new X509Certificate(chain[0] ?? '')
      assert.equal(leaf.subjectAltName, `URI:${WEB}-${index}`)
      assert.ok(leaf.checkPrivateKey(createPrivateKey(requests[index]?.privateKeyPem ?? '')))
    }
  })
}

// Nothing that a stand-in could show: what the controller manager of Kubernetes itself makes of a SPIFFE ID.
for (const [signer, usages, expected] of [
  ['kubernetes.io/kube-apiserver-client', ['digital signature', 'client auth'], undefined],
  [
    'kubernetes.io/kube-apiserver-client',
    ['digital signature', 'client auth', 'server auth'],
    /invalid usage.*server auth/,
  ],
  ['kubernetes.io/kubelet-serving', ['digital signature', 'server auth'], /organization is not system:nodes/],
  [
    'kubernetes.io/kube-apiserver-client-kubelet',
    ['digital signature', 'client auth'],
    /organization is not system:nodes/,
  ],
] as const)
  test(`real controller manager: ${signer} for ${usages.join(', ')} ${expected ? 'is refused' : 'copies the SAN'}`, {
    skip: noRealCluster,
  }, async t => {
    const cluster = await realCluster(t)
    const { client } = await openClient(t, { kubeconfig: cluster.kubeconfig, signerName: signer, usages })
    const ticket = new TestTicket()
    const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
    const refused = expected && assert.rejects(issuing, isCAError('invalid-csr', expected))
    await cluster.signer.approve(await ticket.name())
    if (refused) return await refused
    const leaf = new X509Certificate((await issuing).chain[0] ?? '')
    assert.equal(leaf.subjectAltName, `URI:${WEB}`)
    assert.deepEqual(leaf.keyUsage, [CLIENT_AUTH])
  })

/** A cut ends a watch, but fails a look: then core asks again, with the ticket. */
async function issueAsCore(client: CAClient, request: CertificateRequest): Promise<IssuedCertificate> {
  for (;;)
    try {
      return await client.issue(request)
    } catch (error) {
      if (!(error instanceof CAError && error.code === 'unavailable' && error.retryable)) throw error
    }
}

/** Lets the pauses between two watches pass until `waiting` is over. */
async function keepWaiting(clock: FakeClock, waiting: Promise<unknown>): Promise<void> {
  let isOver = false
  const over = () => {
    isOver = true
  }
  waiting.then(over, over)
  while (!isOver) {
    const [next = Number.POSITIVE_INFINITY] = clock.deadlines()
    // Not the deadline of the approval, fifteen minutes ahead.
    if (next <= clock.now() + 60_000) await clock.advance(next - clock.now())
    await new Promise(setImmediate)
  }
}

/** A request that is at the API server, and waits there. */
async function leavePending(
  client: Awaited<ReturnType<typeof openClient>>['client'],
  given?: Awaited<ReturnType<typeof workloadRequest>>,
) {
  const request = given ?? (await workloadRequest(WEB))
  const ticket = new TestTicket()
  const nobody = new AbortController()
  const left = assert.rejects(client.issue({ ...request, ticket, signal: nobody.signal }), /nobody waits/)
  const name = await ticket.name()
  nobody.abort(new Error('nobody waits'))
  await left
  return { name, request, ticket }
}

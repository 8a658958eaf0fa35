/** Faults between the plugin and the API server, at a stand-in that produces them on request. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CAError, type CAErrorCode } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../../test/citadel-setup.ts'
import { KubeApiServer, type KubeCall, type KubeFault } from '../../../test/kube-api-server.ts'
import { standInCluster } from '../../../test/kube-clusters.ts'
import { openClient, TestTicket } from '../../../test/kube-setup.ts'
import { warningsOf } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const isWatch = ({ verb }: KubeCall) => verb === 'watch'
const isList = ({ verb }: KubeCall) => verb === 'list'

async function setUp(t: TestContext) {
  const cluster = await standInCluster(t)
  return { ...cluster, ...(await openClient(t, cluster)) }
}

/** A request that waits in its first watch. */
async function waitingRequest({ client, server }: Awaited<ReturnType<typeof setUp>>) {
  const request = await workloadRequest(WEB)
  const ticket = new TestTicket()
  const issuing = client.issue({ ...request, ticket })
  // The caller that awaits it gets its error.
  issuing.catch(() => {})
  const name = await ticket.name()
  await server.called(isWatch)
  return { request, ticket, issuing, name }
}

async function signIt({ signer }: Awaited<ReturnType<typeof setUp>>, name: string): Promise<void> {
  await signer.approve(name)
  await signer.sign(name)
}

test('watches that the server ends are started again after 1, 2, 4 s, with a read before each', async t => {
  const setup = await setUp(t)
  const { server, clock } = setup
  const { issuing, name } = await waitingRequest(setup)
  for (const [round, seconds] of [
    [1, 1],
    [2, 2],
    [3, 4],
  ] as const) {
    server.endWatches()
    await clock.waitForDeadline(time => time === clock.now() + seconds * 1_000)
    await clock.advance(seconds * 1_000)
    await server.called(isWatch, round + 1)
    assert.equal(server.calls.filter(isList).length, round)
  }
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
})

test('after a watch that lasted, the next one is begun a second after its end, not before', async t => {
  const setup = await setUp(t)
  const { server, clock } = setup
  const { issuing, name } = await waitingRequest(setup)
  for (const round of [1, 2, 3]) {
    await clock.advance(60_000)
    server.endWatches()
    await clock.waitForDeadline(time => time === clock.now() + 1_000)
    assert.equal(server.calls.filter(isList).length, round - 1)
    await clock.advance(1_000)
    await server.called(isWatch, round + 1)
  }
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
})

test('a change between two watches is seen by the read', async t => {
  const setup = await setUp(t)
  const { server, clock } = setup
  const { issuing, name } = await waitingRequest(setup)
  server.endWatches()
  await clock.waitForDeadline(time => time === clock.now() + 1_000)
  await signIt(setup, name)
  await clock.advance(1_000)
  assert.equal((await issuing).chain.length, 2)
  assert.equal(server.calls.filter(isWatch).length, 1)
})

for (const [how, fault] of [
  ['in an event', undefined],
  ['by its status', { kind: 'status', code: 410, message: 'too old resource version' }],
] as const)
  test(`a version that is too old (410, ${how}) is followed by a look and a watch from there`, async t => {
    const setup = await setUp(t)
    const { server, clock } = setup
    const { issuing, name } = await waitingRequest(setup)
    let isFirst = true
    const usual = server.fault
    server.fault = call => {
      if (!isWatch(call) || !isFirst) return usual(call)
      isFirst = false
      if (!fault) server.objects.compact()
      return fault
    }
    for (const watches of [2, 3]) {
      server.endWatches()
      const pauseMs = (watches - 1) * 1_000
      await clock.waitForDeadline(time => time === clock.now() + pauseMs)
      await clock.advance(pauseMs)
      await server.called(isWatch, watches)
      if (watches === 2) await server.called(isList, 1)
    }
    await signIt(setup, name)
    assert.equal((await issuing).chain.length, 2)
  })

test('bookmarks, duplicate events and fragmented events change nothing', async t => {
  const setup = await setUp(t)
  const { server } = setup
  server.objects.duplicates = true
  const { issuing, name } = await waitingRequest(setup)
  const bookmark = JSON.stringify({ type: 'BOOKMARK', object: { metadata: { resourceVersion: '999' } } })
  server.tell(bookmark.slice(0, 20), bookmark.slice(20), '\n', '\n')
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
})

test('a line of a watch that is not JSON, or not a request, is a bad-response', async t => {
  for (const line of ['<html></html>', JSON.stringify({ type: 'ADDED', object: { kind: 'Pod' } })]) {
    const setup = await setUp(t)
    const { issuing } = await waitingRequest(setup)
    setup.server.tell(`${line}\n`)
    await assert.rejects(issuing, isCAError('bad-response', /Check that this is an API server/))
  }
})

test('a line of a watch without an end is cut at four megabytes', async t => {
  const setup = await setUp(t)
  const { issuing } = await waitingRequest(setup)
  setup.server.tell(...Array.from({ length: 5 }, () => 'x'.repeat(1_048_576)))
  await assert.rejects(issuing, isCAError('bad-response', /a line has more than 4194304 characters/))
})

for (const verb of ['create', 'list', 'watch'] as const)
  test(`an answer over four megabytes to a ${verb} is a bad-response`, async t => {
    const { server, client } = await setUp(t)
    const request = { ...(await workloadRequest(WEB)), ticket: new TestTicket() }
    const message = 'x'.repeat(5_000_000)
    server.fault = call => {
      if (call.verb !== verb) return undefined
      return verb === 'watch' ? { kind: 'status', code: 500, message } : { kind: 'body', text: `{"kind":"${message}"}` }
    }
    if (verb === 'list') {
      // The next call looks for what the first one made.
      const nobody = new AbortController()
      const left = assert.rejects(client.issue({ ...request, signal: nobody.signal }), /nobody waits/)
      await server.called(isWatch)
      nobody.abort(new Error('nobody waits'))
      await left
    }
    await assert.rejects(
      client.issue(request),
      isCAError('bad-response', /cannot be read: it has more than 4194304 bytes/),
    )
  })

test('text that is not a certificate is a bad-response, and its ticket dropped', async t => {
  const setup = await setUp(t)
  const { issuing, name, ticket } = await waitingRequest(setup)
  await setup.signer.approve(name)
  const certificate = Buffer.from('no PEM').toString('base64')
  setup.server.objects.update('certificatesigningrequests', name, { status: { certificate } })
  await assert.rejects(issuing, isCAError('bad-response', /has no PEM certificate in element 0\. Check the signer\.$/))
  assert.equal(ticket.stored, undefined)
})

test('a request that core gives up is named in the log, whether it is new or found again', async t => {
  const { client, context, server } = await setUp(t)
  const request = await workloadRequest(WEB)
  const ticket = new TestTicket()
  for (const count of [1, 2]) {
    const nobody = new AbortController()
    const left = assert.rejects(client.issue({ ...request, ticket, signal: nobody.signal }), /nobody waits/)
    const { name } = await server.called(isWatch, count)
    nobody.abort(new Error('nobody waits'))
    await left
    assert.equal(context.lines.length, count)
    assert.match(context.lines.at(-1)?.message ?? '', new RegExp(`^The request ${name} for ${WEB} still waits`))
  }
})

test('a server that is not verified is warned of', async t => {
  const cluster = await standInCluster(t)
  const kubeconfig = join(temporaryFolder(t), 'config')
  const text = await readFile(cluster.kubeconfig, 'utf8')
  await writeFile(kubeconfig, text.replace(/"certificate-authority-data":"[^"]*"/, '"insecure-skip-tls-verify":true'))
  const setup = { ...cluster, ...(await openClient(t, { kubeconfig })) }
  const { issuing, name } = await waitingRequest(setup)
  await signIt(setup, name)
  await issuing
  const warnings = warningsOf(setup.context)
  assert.match(
    warnings[0] ?? '',
    /is not verified \(insecure-skip-tls-verify in the kubeconfig .*Name its certificate-authority/,
  )
  assert.equal(warnings.length, 1)
})

test('a tls-server-name that is an address is verified', async t => {
  const cluster = await standInCluster(t)
  const text = await readFile(cluster.kubeconfig, 'utf8')
  const openAs = async (name: string) => {
    const kubeconfig = join(temporaryFolder(t), 'config')
    await writeFile(kubeconfig, text.replace('"certificate-authority-data"', `"tls-server-name":"${name}",$&`))
    return { ...cluster, ...(await openClient(t, { kubeconfig })) }
  }
  const setup = await openAs('127.0.0.1')
  const { issuing, name } = await waitingRequest(setup)
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
  const { client } = await openAs('127.0.0.2')
  await assert.rejects(
    client.issue({ ...(await workloadRequest(WEB)), ticket: new TestTicket() }),
    /IP: 127\.0\.0\.2 is not in the cert's list/,
  )
})

const refusals: readonly (readonly [number, CAErrorCode, boolean, RegExp])[] = [
  [400, 'invalid-csr', false, /Set usages, signerName and keyType/],
  [401, 'unauthenticated', true, /Renew the token or the client certificate/],
  [403, 'denied', false, /Grant the verb create on certificatesigningrequests in certificates\.k8s\.io/],
  [404, 'unavailable', false, /serves certificates\.k8s\.io\/v1/],
  [413, 'invalid-csr', false, /keyType/],
  [422, 'invalid-csr', false, /keyType/],
  [429, 'rate-limited', true, /retries later/],
  [500, 'unavailable', true, /asked again/],
  [503, 'unavailable', true, /asked again/],
  [504, 'timeout', true, /asked again/],
]
for (const [code, expected, retryable, message] of refusals)
  test(`HTTP ${code} to a creation is ${expected}, asked once, with a remedy`, async t => {
    const { server, client } = await setUp(t)
    server.fault = () => ({ kind: 'status', code, message: 'a reason' })
    const ticket = new TestTicket()
    await assert.rejects(client.issue({ ...(await workloadRequest(WEB)), ticket }), (error: unknown) => {
      assert.ok(error instanceof CAError)
      assert.equal(error.retryable, retryable)
      assert.match(
        error.message,
        /^Cannot create the request livery-[0-9a-f]+ for spiffe:.* at https:.*: HTTP (401|\d+: a reason)\. /,
      )
      return isCAError(expected, message)(error)
    })
    assert.equal(server.calls.length, 1)
    assert.equal(ticket.stored, undefined)
  })

test('a refusal of admission is distinguished from one of RBAC', async t => {
  const { server, client } = await setUp(t)
  const message = 'admission webhook "policy.example.com" denied the request: not this namespace'
  server.fault = () => ({ kind: 'status', code: 403, message })
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('denied', /not this namespace\. Ask the owner of that policy/),
  )
  server.fault = () => ({ kind: 'status', code: 422, message: 'spec.expirationSeconds: Invalid value: at most 3600' })
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('ttl-too-long', /Ask for a shorter ttl/))
})

test('Retry-After comes along, from a creation, a look and a watch, and the ticket stays', async t => {
  const busy: KubeFault = { kind: 'status', code: 429, message: 'slow down', headers: { 'retry-after': '7' } }
  const { server, client } = await setUp(t)
  const usual = server.fault
  const request = await workloadRequest(WEB)
  const ticket = new TestTicket()
  const limited = { code: 'rate-limited', retryAfterMs: 7_000 }
  for (const verb of ['create', 'watch', 'list'] as const) {
    server.fault = call => (call.verb === verb ? busy : usual(call))
    await assert.rejects(client.issue({ ...request, ticket }), limited, verb)
    assert.equal(ticket.stored === undefined, verb === 'create')
  }
})

test('a creation whose answer was lost is found by its name, and not made twice', async t => {
  const setup = await setUp(t)
  const { server, client, signer } = setup
  const usual = server.fault
  let isFirst = true
  server.fault = call => {
    if (call.verb !== 'create' || !isFirst) return usual(call)
    isFirst = false
    return { kind: 'reset', after: true }
  }
  const request = await workloadRequest(WEB)
  const ticket = new TestTicket()
  const issuing = client.issue({ ...request, ticket })
  const name = await ticket.name()
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
  assert.deepEqual(await signer.requestsFor(request.csrPem), [name])
})

test('an API server that comes back without the request, and with older versions, is asked for it again', async t => {
  const setup = await setUp(t)
  const { server, clock, client, signer } = setup
  // The version at which the watch begins is far beyond what the restored server has.
  for (let i = 0; i < 20; i++)
    server.objects.create('clustertrustbundles', { metadata: { name: `roots-${i}` }, spec: {} }, 'admin')
  const { request, ticket, issuing, name } = await waitingRequest(setup)
  const { port } = server
  await server[Symbol.asyncDispose]()
  await clock.waitForDeadline(time => time === clock.now() + 1_000)
  await clock.advance(1_000)
  await assert.rejects(issuing, isCAError('unavailable', /ECONNREFUSED/))
  const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
  const { chain, privateKey } = await setup.authority.issueServerCertificate(names, 86_400)
  await using restored = await KubeApiServer.start({ tls: { cert: chain, key: privateKey }, port })
  await assert.rejects(
    client.issue({ ...request, ticket }),
    isCAError('unavailable', /was deleted .*A new one is made/),
  )
  const again = client.issue({ ...request, ticket })
  again.catch(() => {})
  await restored.called(({ verb }) => verb === 'create')
  await signIt(setup, name)
  assert.equal((await again).chain.length, 2)
  assert.deepEqual(await signer.requestsFor(request.csrPem), [name])
})

test('a name that is taken again and again is unavailable', async t => {
  const { server, client } = await setUp(t)
  server.fault = () => ({ kind: 'status', code: 409, message: 'already exists' })
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /its name is taken/))
  assert.equal(server.calls.length, 2)
})

test('an API server that is gone is unavailable, and the request is found again once it is back', async t => {
  const setup = await setUp(t)
  const { server, clock, client, signer } = setup
  const { request, ticket, issuing, name } = await waitingRequest(setup)
  const { port, objects } = server
  await server[Symbol.asyncDispose]()
  await clock.waitForDeadline(time => time === clock.now() + 1_000)
  await clock.advance(1_000)
  await assert.rejects(issuing, isCAError('unavailable', /Cannot look for the request .*ECONNREFUSED/))
  const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
  const { chain, privateKey } = await setup.authority.issueServerCertificate(names, 86_400)
  await using _again = await KubeApiServer.start({ tls: { cert: chain, key: privateKey }, objects, port })
  const resumed = client.issue({ ...request, ticket })
  await signIt(setup, name)
  assert.equal((await resumed).chain.length, 2)
  assert.deepEqual(await signer.requestsFor(request.csrPem), [name])
})

for (const verb of ['create', 'list', 'watch'] as const)
  test(`an abort while the ${verb} hangs rejects with its reason, and closing does not wait`, async t => {
    const { server, client, clock } = await setUp(t)
    const usual = server.fault
    const request = await workloadRequest(WEB)
    const ticket = new TestTicket()
    if (verb === 'list') ticket.stored = JSON.stringify({ name: 'livery-test-1', uid: '1', since: clock.now() })
    server.fault = call => (call.verb === verb ? { kind: 'hang' } : usual(call))
    const nobody = new AbortController()
    const issuing = assert.rejects(client.issue({ ...request, ticket, signal: nobody.signal }), /nobody waits/)
    await server.called(call => call.verb === verb)
    nobody.abort(new Error('nobody waits'))
    await issuing
    const closed = assert.rejects(
      client.issue({ ...request, ticket }),
      isCAError('unavailable', /its client is closed/),
    )
    await server.called(call => call.verb === verb, 2)
    await client[Symbol.asyncDispose]()
    await closed
    await server.disconnected()
    assert.deepEqual(clock.deadlines(), [])
  })

test('requests go over connections that are kept', async t => {
  const setup = await setUp(t)
  const { server, client } = setup
  for (let round = 0; round < 5; round++) {
    const ticket = new TestTicket()
    const issuing = client.issue({ ...(await workloadRequest(WEB)), ticket })
    const name = await ticket.name()
    server.objects.update('certificatesigningrequests', name, {
      status: { conditions: [{ type: 'Denied', status: 'True' }] },
    })
    await assert.rejects(issuing, isCAError('denied', /no reason is given/))
  }
  assert.ok(server.connections <= 6, `${server.connections} connections for five requests`)
})

test('a server whose certificate is of another CA is refused', async t => {
  const cluster = await standInCluster(t)
  const other = await standInCluster(t)
  const kubeconfig = join(temporaryFolder(t), 'config')
  const text = await readFile(cluster.kubeconfig, 'utf8')
  await writeFile(kubeconfig, text.replaceAll(`:${cluster.port}`, `:${other.port}`))
  const { client } = await openClient(t, { kubeconfig })
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unavailable', /certificate.*Check its address and roots/),
  )
  assert.equal(other.server.calls.length, 0)
})

test('the kubeconfig is read again when it changes: another token, another server', async t => {
  const cluster = await standInCluster(t)
  const nobody = (await cluster.userWith([])).toString()
  const kubeconfig = join(temporaryFolder(t), 'config')
  await writeFile(kubeconfig, await readFile(nobody, 'utf8'))
  const setup = { ...cluster, ...(await openClient(t, { kubeconfig })) }
  await assert.rejects(setup.client.issue(await workloadRequest(WEB)), isCAError('denied'))
  await replaceFile(kubeconfig, await readFile(cluster.kubeconfig, 'utf8'))
  const { issuing, name } = await waitingRequest(setup)
  await signIt(setup, name)
  assert.equal((await issuing).chain.length, 2)
})

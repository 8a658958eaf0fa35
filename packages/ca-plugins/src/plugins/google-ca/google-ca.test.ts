import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { CAError, type CAErrorCode } from '@livery/core/plugin'
import { isCAError } from '../../../test/citadel-setup.ts'
import { API, decodeCas, decodeMesh, setUpGoogle, WEB, withSignal } from '../../../test/google-ca-setup.ts'
import { Refusal } from '../../../test/google-stand-in.ts'
import { manage } from '../../../test/managed-client.ts'
import { workloadRequest } from '../../testing/workload-request.ts'

const SERVICES = ['cas', 'mesh-ca'] as const
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const WEB_SECRET = { kind: 'identity', identity: WEB } as const
const never = new AbortController().signal

for (const service of SERVICES) {
  test(`${service}: the chain comes leaf first, with the root apart`, async t => {
    const { client, authorities } = await setUpGoogle(t, { service })
    const request = await workloadRequest(WEB)
    const { chain, roots, privateKey } = await client.issue(request)
    const [leaf, intermediate] = chain.map(pem => new X509Certificate(pem))
    assert.equal(chain.length, 2)
    assert.equal(leaf?.subjectAltName, `URI:${WEB}`)
    assert.ok(leaf.checkPrivateKey(createPrivateKey(request.privateKeyPem)))
    assert.ok(intermediate && leaf.checkIssued(intermediate))
    assert.deepEqual(roots, authorities[0]?.trustBundle())
    assert.equal(privateKey, undefined)
  })

  test(`${service}: a request that is asked again has the same request ID, another CSR or lifetime has another`, async t => {
    const { client, server } = await setUpGoogle(t, { service })
    const request = await workloadRequest(WEB)
    await client.issue(request)
    await client.issue(request)
    await client.issue({ ...request, ttlSeconds: 60 })
    await client.issue(await workloadRequest(WEB))
    const ids = server.calls.map(call => (service === 'cas' ? decodeCas(call) : decodeMesh(call)).requestId)
    for (const id of ids) assert.match(id, UUID)
    assert.equal(ids[0], ids[1])
    assert.equal(new Set(ids).size, 3)
  })

  test(`${service}: each call has the token of its identity, read when it is made`, async t => {
    const { client, server, credentials } = await setUpGoogle(t, { service })
    await client.issue(await workloadRequest(WEB))
    credentials.token = `secret-token.${API}`
    await client.issue(await workloadRequest(API))
    await client.issue(await workloadRequest(WEB, { tokenFile: `own-token.${WEB}` }))
    assert.deepEqual(
      server.calls.map(({ headers }) => headers['authorization']),
      [`Bearer secret-token.${WEB}`, `Bearer secret-token.${API}`, `Bearer own-token.${WEB}`],
    )
  })

  test(`${service}: a SecretManager serves what was issued, and renews it`, async t => {
    const { client, clock, authorities } = await setUpGoogle(t, { service })
    await using managed = manage(client, clock)
    managed.manager.add(WEB)
    const { manager } = managed
    await managed.until('issued', 1)
    const first = manager.current(WEB_SECRET)
    await clock.advance((manager.entries()[0]?.renewAt ?? 0) - clock.now())
    await managed.until('issued', 2)
    const second = manager.current(WEB_SECRET)
    assert.ok(first?.kind === 'certificate' && second?.kind === 'certificate')
    assert.notEqual(second.serialNumber, first.serialNumber)
    assert.equal(new X509Certificate(second.certificateChain).subjectAltName, `URI:${WEB}`)
    const bundle = manager.current({ kind: 'bundle', trustDomain: 'cluster.local' })
    assert.ok(bundle?.kind === 'bundle')
    assert.equal(Buffer.from(bundle.trustedCa).toString(), authorities[0]?.trustBundle().join(''))
  })

  test(`${service}: a certificate that reflects another caller is not served`, async t => {
    const { client, clock, credentials } = await setUpGoogle(t, { service })
    credentials.token = `secret-token.${API}`
    await using managed = manage(client, clock)
    managed.manager.add(WEB)
    const event = await managed.until('ca-error', 1)
    assert.equal(event.kind === 'ca-error' && event.code, 'bad-response')
    assert.equal(managed.manager.current(WEB_SECRET), undefined)
  })

  const codes: readonly (readonly [status, string, CAErrorCode, boolean])[] = [
    [status.CANCELLED, 'x', 'unavailable', true],
    [status.UNKNOWN, 'x', 'unavailable', true],
    [status.INVALID_ARGUMENT, 'The key type is not allowed', 'invalid-csr', false],
    [status.INVALID_ARGUMENT, 'The requested lifetime exceeds the maximum', 'ttl-too-long', false],
    [status.DEADLINE_EXCEEDED, 'x', 'timeout', true],
    [status.NOT_FOUND, 'x', 'unavailable', false],
    [status.ALREADY_EXISTS, 'Certificate livery-1 already exists', 'unavailable', true],
    [status.PERMISSION_DENIED, 'x', 'denied', false],
    [status.RESOURCE_EXHAUSTED, 'Quota exceeded', 'rate-limited', true],
    [status.FAILED_PRECONDITION, 'The CA pool is disabled', 'unavailable', false],
    [status.ABORTED, 'x', 'unavailable', true],
    [status.OUT_OF_RANGE, 'x', 'unavailable', true],
    [status.UNIMPLEMENTED, 'x', 'unavailable', false],
    [status.INTERNAL, 'x', 'unavailable', true],
    [status.UNAVAILABLE, 'x', 'unavailable', true],
    [status.DATA_LOSS, 'x', 'unavailable', true],
    [status.UNAUTHENTICATED, 'x', 'unauthenticated', true],
  ]
  for (const [grpcCode, details, code, retryable] of codes)
    test(`${service}: ${status[grpcCode]} "${details}" is ${code}, asked once, with a remedy`, async t => {
      const setup = await setUpGoogle(t, { service })
      setup.behaviour = () => Promise.reject(new Refusal(grpcCode, details))
      await assert.rejects(setup.client.issue(await workloadRequest(WEB)), (error: unknown) => {
        isCAError(code, / [A-Z_]+: .*\. [A-Z].*\.$/)(error)
        assert.ok(String(error).includes(`${status[grpcCode]}: ${details}. `), String(error))
        assert.equal(Object(error).retryable, retryable)
        return true
      })
      assert.equal(setup.server.calls.length, 1)
    })

  test(`${service}: the wait that a quota error asks for comes along`, async t => {
    const setup = await setUpGoogle(t, { service })
    setup.behaviour = () => Promise.reject(new Refusal(status.RESOURCE_EXHAUSTED, 'Quota exceeded', 2500))
    await assert.rejects(setup.client.issue(await workloadRequest(WEB)), { code: 'rate-limited', retryAfterMs: 2500 })
  })

  test(`${service}: a token that the server sends back is not in the error`, async t => {
    const setup = await setUpGoogle(t, { service })
    const details = `bad secret-token.${WEB}, ya29.another, Bearer a.third, eyJhbGciOiJSUzI1NiJ9.eyJhIjoxfQ.c2ln\nforged`
    setup.behaviour = () => Promise.reject(new Refusal(status.UNAUTHENTICATED, details))
    await assert.rejects(setup.client.issue(await workloadRequest(WEB)), (error: Error) => {
      const shown = `${error.stack} ${JSON.stringify(error)} ${error.cause}`
      assert.doesNotMatch(shown, /secret-token|another|a\.third|eyJ|\nforged/)
      return isCAError('unauthenticated', /grants of the tokens of the test/)(error)
    })
  })

  test(`${service}: an aborted request rejects with its reason, and is taken back: before, in the CSR, in the token, in the call`, async t => {
    const setup = await setUpGoogle(t, { service })
    const { client, server, credentials } = setup
    const request = await workloadRequest(WEB)
    const reason = new CAError('timeout', 'nobody waits')
    await assert.rejects(client.issue(withSignal(request, AbortSignal.abort(reason))), reason)

    const inCsr = new AbortController()
    const making = client.issue({ ...request, signal: inCsr.signal, csr: () => new Promise<never>(() => {}) })
    inCsr.abort(reason)
    await assert.rejects(making, reason)

    const inToken = new AbortController()
    const asked = Promise.withResolvers<void>()
    const { get } = credentials
    credentials.get = () => {
      asked.resolve()
      return new Promise<never>(() => {})
    }
    const authenticating = client.issue(withSignal(request, inToken.signal))
    await asked.promise
    inToken.abort(reason)
    await assert.rejects(authenticating, reason)
    assert.equal(server.calls.length, 0)

    credentials.get = get
    setup.behaviour = () => new Promise<never>(() => {})
    const inCall = new AbortController()
    const arrived = server.nextCall()
    const issuing = assert.rejects(client.issue(withSignal(request, inCall.signal)), reason)
    const { cancelled } = await arrived
    inCall.abort(reason)
    await issuing
    await cancelled
  })

  test(`${service}: an error of the credentials comes through as it is`, async t => {
    const { client, server, credentials } = await setUpGoogle(t, { service })
    const expired = new CAError('unauthenticated', 'the token has expired')
    credentials.get = () => Promise.reject(expired)
    await assert.rejects(client.issue(await workloadRequest(WEB)), expired)
    assert.equal(server.calls.length, 0)
  })

  test(`${service}: sixty-four at once use one connection`, async t => {
    const { client, server } = await setUpGoogle(t, { service })
    const requests = await Promise.all(Array.from({ length: 64 }, () => workloadRequest(WEB)))
    const issued = await Promise.all(requests.map(request => client.issue(request)))
    assert.equal(new Set(issued.map(({ chain }) => chain[0])).size, 64)
    assert.equal(server.connections, 1)
  })

  test(`${service}: a connection that breaks in a call is unavailable, and the next call has a new one`, async t => {
    const setup = await setUpGoogle(t, { service })
    await setup.client.issue(await workloadRequest(WEB))
    setup.behaviour = () => {
      setup.server.reset()
      return new Promise<never>(() => {})
    }
    await assert.rejects(setup.client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
    setup.behaviour = undefined
    await setup.client.issue(await workloadRequest(WEB))
    assert.equal(setup.server.connections, 2)
  })

  test(`${service}: an answer that cannot be used is a bad-response`, async t => {
    const setup = await setUpGoogle(t, { service })
    for (const bytes of [Buffer.alloc(0), Buffer.from('<html></html>'), Buffer.alloc(1_048_577)]) {
      setup.behaviour = async () => bytes
      await assert.rejects(
        setup.client.issue(await workloadRequest(WEB)),
        isCAError('bad-response', /Check the endpoint/),
      )
    }
  })

  test(`${service}: closing rejects the open calls and later ones, twice is fine, and leaves no connection`, async t => {
    const setup = await setUpGoogle(t, { service })
    const { client, server, clock } = setup
    setup.behaviour = () => new Promise<never>(() => {})
    const arrived = server.nextCall()
    const closed = isCAError('unavailable', /its client is closed/)
    const issuing = assert.rejects(client.issue(await workloadRequest(WEB)), closed)
    await arrived
    await client[Symbol.asyncDispose]()
    await client[Symbol.asyncDispose]()
    await issuing
    await assert.rejects(client.issue(await workloadRequest(WEB)), closed)
    if (client.trustBundle) await assert.rejects(client.trustBundle({ signal: never }), closed)
    await server.disconnected()
    assert.deepEqual(clock.deadlines(), [])
  })
}

import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { test } from 'node:test'
import { CAError, pemToDer, SystemClock } from '@livery/core'
import { isCAError, WEB } from '../../test/citadel-setup.ts'
import { workloadRequest } from '../testing/workload-request.ts'
import { CertificateAuthority } from './embedded/certificate-authority.ts'
import { type ClassicCAClient, fromClassic } from './from-classic.ts'

const { signal } = new AbortController()

/** A classic client that signs with its own CA, through an intermediate; `parts` replaces some of it. */
async function setUp(parts: Partial<ClassicCAClient> = {}) {
  const authority = await CertificateAuthority.open({
    clock: new SystemClock(),
    trustDomain: 'cluster.local',
    intermediate: true,
  })
  const asked: number[] = []
  const classic: ClassicCAClient = {
    csrSign: async (csrPem, ttlSeconds) => {
      asked.push(ttlSeconds)
      const { chain, root } = await authority.sign({ identity: WEB, csr: pemToDer(csrPem), ttlSeconds })
      return [...chain, root]
    },
    ...parts,
  }
  return { authority, asked, client: fromClassic(classic, 'the CA of the house') }
}

test('the CSR is signed for the requested lifetime, and the root is separated from the chain', async () => {
  const { authority, asked, client } = await setUp()
  const request = await workloadRequest(WEB, { ttlSeconds: 1234.4 })
  const { chain, roots } = await client.issue(request)
  assert.equal(chain.length, 2)
  assert.ok(new X509Certificate(chain[0] ?? '').checkPrivateKey(createPrivateKey(request.privateKeyPem)))
  assert.deepEqual(roots, authority.trustBundle())
  assert.deepEqual(asked, [1234])
})

test('the trust bundle is there where the classic client has one, one certificate an element', async () => {
  const { authority } = await setUp()
  await authority.addRoot()
  const { client } = await setUp({ getRootCertBundle: async () => [authority.trustBundle().join('')] })
  assert.deepEqual(await client.trustBundle?.({ signal }), authority.trustBundle())
  assert.equal((await setUp()).client.trustBundle, undefined)
})

test('a CAError of the classic client comes through, another error is unavailable without credentials in it', async () => {
  const denied = new CAError('denied', 'Not you.')
  const first = await setUp({ csrSign: () => Promise.reject(denied) })
  await assert.rejects(first.client.issue(await workloadRequest(WEB)), denied)
  const second = await setUp({
    csrSign: () => {
      throw new Error('connect ECONNREFUSED with Bearer hush')
    },
  })
  await assert.rejects(second.client.issue(await workloadRequest(WEB)), (error: Error) => {
    assert.doesNotMatch(`${error.stack} ${error.cause}`, /hush/)
    return isCAError('unavailable', /a certificate for .*web from the CA of the house: connect ECONNREFUSED/)(error)
  })
})

const unusable: readonly (readonly [string, unknown, RegExp])[] = [
  ['no list', undefined, /is not a list of PEM/],
  ['a list of something else', [Buffer.from('x')], /is not a list of PEM/],
  ['empty', [], /has 0 elements/],
  ['no PEM', ['hello', 'world'], /no PEM certificate in element 0/],
]
for (const [what, answer, reason] of unusable)
  test(`an answer that is ${what} is a bad-response`, async () => {
    const csrSign = async () => answer as string[]
    const { client } = await setUp({ csrSign, getRootCertBundle: csrSign })
    await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('bad-response', reason))
    const bundle = client.trustBundle?.({ signal })
    await assert.rejects(
      bundle ?? Promise.resolve(),
      isCAError('bad-response', /is not a list of PEM|no PEM certificate/),
    )
  })

test('an aborted request rejects with the reason of its signal, also where the classic client does not listen', async () => {
  const { promise: arrived, resolve } = Promise.withResolvers<AbortSignal>()
  const csrSign = (_csr: string, _ttl: number, options: { readonly signal: AbortSignal }) => {
    resolve(options.signal)
    return new Promise<string[]>(() => {})
  }
  const { client } = await setUp({ csrSign })
  const reason = new Error('nobody waits')
  await assert.rejects(client.issue(await workloadRequest(WEB, { signal: AbortSignal.abort(reason) })), reason)
  const abort = new AbortController()
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB, { signal: abort.signal })), reason)
  const passedOn = await arrived
  abort.abort(reason)
  await issuing
  assert.equal(passedOn.aborted, true)
})

test('a CSR that cannot be made rejects with its error', async () => {
  const { client, asked } = await setUp()
  const error = new Error('no key')
  await assert.rejects(client.issue({ ...(await workloadRequest(WEB)), csr: () => Promise.reject(error) }), error)
  assert.deepEqual(asked, [])
})

test('closing closes the classic client once, and rejects the open calls and every later one', async () => {
  let closed = 0
  const { promise: arrived, resolve } = Promise.withResolvers<void>()
  const { client } = await setUp({
    csrSign: () => {
      resolve()
      return new Promise<string[]>(() => {})
    },
    getRootCertBundle: async () => [],
    close: () => void closed++,
  })
  const isClosed = isCAError('unavailable', /the CA of the house: its client is closed/)
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB)), isClosed)
  await arrived
  await client[Symbol.asyncDispose]()
  await client[Symbol.asyncDispose]()
  await issuing
  assert.equal(closed, 1)
  await assert.rejects(client.issue(await workloadRequest(WEB)), isClosed)
  await assert.rejects(client.trustBundle?.({ signal }) ?? Promise.resolve(), isClosed)
})

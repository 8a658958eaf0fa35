/** The form of every answer. */
import assert from 'node:assert/strict'
import type { CACapabilities } from '@livery/core/plugin'
import { type BenchCase, type LiveCase, unlessBringsKey } from '../kit/conformance-case.ts'
import { expectWell, issueWell, leafOf } from '../kit/expectations.ts'
import { inTime } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'

const group = 'contract'

/** RSA keys of more bits take seconds to make. */
const QUICK_KEY_TYPES = new Set(['ecdsa-p256', 'ecdsa-p384', 'rsa-2048'])

export const contractCases: readonly LiveCase[] = [
  {
    group,
    name: 'a certificate is for the identity and the key asked for: leaf first, PEM, no root, no private key',
    run: async on => void (await issueWell(on)),
  },
  {
    group,
    name: 'the client has the methods that its capabilities declare, and no others',
    async run({ client, capabilities }) {
      const { roots, bringsKey = false, revokesMissingRoots = false } = capabilities
      assert.equal(client.trustBundle !== undefined, roots !== 'none', `trustBundle does not fit roots: ${roots}`)
      assert.ok(!revokesMissingRoots || roots !== 'none', 'revokesMissingRoots does not fit roots: none')
      // A source of keys also says when those have changed.
      if (!bringsKey || roots !== 'none')
        assert.equal(client.subscribe !== undefined, roots === 'push', `subscribe does not fit roots: ${roots}`)
    },
  },
  {
    group,
    name: 'it answers each request with a new certificate: no cache',
    skip: unlessBringsKey,
    async run(on) {
      const serials = [leafOf(await issueWell(on)).serialNumber, leafOf(await issueWell(on)).serialNumber]
      assert.notEqual(serials[0], serials[1], 'two requests were answered with the same certificate')
    },
  },
  {
    group,
    name: 'a request waits at most connectWithinMs for its connection',
    async run(on) {
      const connectWithinMs = 10 * on.patienceMs
      for (let call = 1; call <= 2; call++) await issueWell(on, { connectWithinMs })
    },
  },
  {
    group,
    name: 'the request and its CSR are left as they were',
    skip: unlessBringsKey,
    async run(on) {
      const request = await kitRequest(on)
      const { der, pem } = request.material.csr
      const before = { ...request, der: Buffer.from(der).toString('hex'), pem }
      await inTime(on.client.issue(request), on.patienceMs, 'issue()')
      const after = { ...request, der: Buffer.from(der).toString('hex'), pem: request.material.csr.pem }
      assert.deepEqual(after, before, 'the plugin changed the request')
    },
  },
  {
    group,
    name: 'every key type that it declares is signed',
    skip: unlessBringsKey,
    async run(on) {
      const keyTypes = on.capabilities.keyTypes.filter(keyType => QUICK_KEY_TYPES.has(keyType))
      for (const keyType of keyTypes) {
        const request = await kitRequest(on, { keyType })
        await expectWell(on, request, await inTime(on.client.issue(request), on.patienceMs, `issue() for ${keyType}`))
      }
    },
  },
]

export const rootSignedCases: readonly BenchCase[] = [
  {
    group,
    name: 'a certificate that the root signed itself is the whole chain',
    intermediates: false,
    needs: ['root-signed'],
    async run(on) {
      const { chain } = await issueWell(on)
      assert.equal(chain.length, 1, 'the CA has no intermediates, and the chain has more than the leaf')
    },
  },
]

export const slowContractCases: readonly BenchCase[] = [
  {
    group,
    name: 'the long key types that it declares are signed as well',
    slow: true,
    skip: (capabilities: CACapabilities) =>
      unlessBringsKey(capabilities) ??
      (capabilities.keyTypes.every(keyType => QUICK_KEY_TYPES.has(keyType)) ? 'it declares none' : undefined),
    async run(on) {
      for (const keyType of on.capabilities.keyTypes.filter(each => !QUICK_KEY_TYPES.has(each)))
        await issueWell(on, { keyType })
    },
  },
]

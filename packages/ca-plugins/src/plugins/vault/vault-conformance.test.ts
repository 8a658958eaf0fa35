/** The conformance kit, with tokens of the credentials and with leases of Kubernetes logins. */
import { describe, test } from 'node:test'
import { startVault } from '../../../test/vault-stand-in.ts'
import { type ConformanceSetup, suite } from '../../conformance/index.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { vault } from './index.ts'

const common = { role: 'workload', mount: 'pki' }
const { capabilities } = vault
const slow = process.env['LIVERY_SLOW'] === '1'

async function withToken({ ca, context, after }: ConformanceSetup) {
  const { server } = await startVault({ ca, clock: context.clock })
  after(() => server[Symbol.asyncDispose]())
  return vault.create(context, { ...common, address: server.address })
}

async function withLogin({ ca, context, after }: ConformanceSetup) {
  const jwts = new Set(['conformance-token-1'])
  const { server } = await startVault({ ca, clock: context.clock, kubernetes: { jwts, leaseSeconds: 3600 } })
  after(() => server[Symbol.asyncDispose]())
  const kubernetes = { role: 'livery', mount: 'kubernetes' }
  return vault.create(context, { ...common, address: server.address, kubernetes })
}

const reason = 'a token is exchanged for a lease, which is held'
describe('with a token', { concurrency: 1 }, () => {
  suite({ test, create: withToken, capabilities, timeoutMs: CALL_TIMEOUT_MS, slow })
})
describe('with a login', { concurrency: 1 }, () => {
  suite({ test, create: withLogin, capabilities, without: { token: reason, 'token-file': reason }, slow })
})

/** The `citadel` plugin passes the published suite, over TLS and gRPC. */
import { test } from 'node:test'
import { startIstioStandIn } from '../../../test/istio-stand-in.ts'
import { suite } from '../../conformance/index.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { citadel } from './index.ts'

const CONFIG = { impersonate: false }

suite({
  test,
  check: () => citadel.check?.({ ...CONFIG, address: 'localhost:15012' }, new Set(['rootCert'])),
  capabilities: citadel.capabilities,
  without: { endless: 'a message of gRPC begins with its length' },
  timeoutMs: CALL_TIMEOUT_MS,
  slow: process.env['LIVERY_SLOW'] === '1',
  async create({ ca, context, after }) {
    const server = await startIstioStandIn(ca)
    after(() => server[Symbol.asyncDispose]())
    const tls = { roots: Buffer.from(ca.trustBundle().join('')) }
    return citadel.create({ ...context, tls: async () => tls }, { ...CONFIG, address: server.address })
  },
})

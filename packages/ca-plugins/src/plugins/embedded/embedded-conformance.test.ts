/** The `embedded` plugin passes what of the published suite needs no faults: its CA is in the client, and has none. */
import { test } from 'node:test'
import { CA_SWITCHES, suite } from '../../conformance/index.ts'
import { embedded } from './index.ts'

const reason = 'the CA is in the client, and has no switch for it'

suite({
  test,
  capabilities: embedded.capabilities,
  without: Object.fromEntries(CA_SWITCHES.map(name => [name, reason])),
  create: ({ context }) => embedded.create(context, { keyType: 'ecdsa-p256', intermediate: true }),
})

/** The conformance kit, over a Workload API that is given what the kit's CA issues. */
import { join } from 'node:path'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import type { CAClient } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { svidsOf, WorkloadApiStandIn } from '../../../test/workload-api-stand-in.ts'
import { CA_SWITCHES, type ConformanceSetup, suite } from '../../conformance/index.ts'
import { spiffe } from './index.ts'

const reason = 'the Workload API pushes what it has, and is asked for nothing'
const without = Object.fromEntries(CA_SWITCHES.filter(name => name !== 'root-rotation').map(name => [name, reason]))

async function create({ ca, context, identities, after }: ConformanceSetup): Promise<CAClient> {
  const server = await WorkloadApiStandIn.start(join(temporaryFolder({ after }), 'api.sock'))
  after(() => server[Symbol.asyncDispose]())
  const give = async (): Promise<void> =>
    server.give(await svidsOf(ca, identities), { [ca.trustDomain]: ca.trustBundle() })
  let given = give()
  await given
  const subscription = ca.subscribe(() => {
    given = give()
  })
  after(() => subscription[Symbol.dispose]())
  let received = 0
  const debug = (line: string): void => {
    if (line.startsWith('The Workload API gives')) received++
  }
  const client = await spiffe.create({ ...context, log: { ...context.log, debug } }, { address: server.address })
  /** A push takes a moment: nobody asks before it has arrived. */
  const arrived = async (): Promise<void> => {
    await given
    while (received < server.sent) await setImmediate()
  }
  return {
    async issue(request) {
      await arrived()
      return await client.issue(request)
    },
    async trustBundle(options) {
      await arrived()
      return (await client.trustBundle?.(options)) ?? []
    },
    subscribe: listener => client.subscribe?.(listener) ?? { [Symbol.dispose]() {} },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]()
      received = Number.POSITIVE_INFINITY
    },
  }
}

suite({ test, create, without, capabilities: spiffe.capabilities, slow: process.env['LIVERY_SLOW'] === '1' })

/** The conformance kit on a list of two CAs: one is the kit's, the other is down, before it or after it. */
import { describe, test } from 'node:test'
import { type CAClient, CAError, type CAMember } from '@livery/core/plugin'
import { REFERENCE_CAPABILITIES, ReferenceClient } from '../../../test/reference-plugin.ts'
import { type ConformanceSetup, suite } from '../../conformance/index.ts'
import { capabilitiesOfAll, failover } from './index.ts'

class DownCA implements CAClient {
  issue(): Promise<never> {
    return Promise.reject(new CAError('unavailable', 'Connection refused.'))
  }

  trustBundle(): Promise<never> {
    return this.issue()
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

async function create({ ca, context, after }: ConformanceSetup, order: 'first' | 'second') {
  const client = new ReferenceClient(ca, context)
  after(() => client[Symbol.asyncDispose]())
  const up: CAMember = { name: 'the CA of the kit', client, capabilities: REFERENCE_CAPABILITIES }
  const down: CAMember = { name: 'the other CA', client: new DownCA(), capabilities: REFERENCE_CAPABILITIES }
  const members = order === 'first' ? [up, down] : [down, up]
  return await failover.create({ ...context, members }, {})
}

const slow = process.env['LIVERY_SLOW'] === '1'
for (const order of ['first', 'second'] as const)
  describe(`the ${order} CA issues`, { concurrency: 1 }, () => {
    suite({
      test,
      check: () => failover.check?.({}, new Set()),
      create: setup => create(setup, order),
      capabilities: capabilitiesOfAll([REFERENCE_CAPABILITIES, REFERENCE_CAPABILITIES]),
      slow,
    })
  })

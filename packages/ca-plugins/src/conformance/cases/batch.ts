/** Many requests in one call. */
import assert from 'node:assert/strict'
import type { CACapabilities, IssuedCertificate } from '@livery/core'
import { type BenchCase, type LiveCase, type Subject, unlessBringsKey } from '../kit/conformance-case.ts'
import { expectCAError, expectOwn } from '../kit/expectations.ts'
import { inTime } from '../kit/in-time.ts'
import { type KitRequest, kitRequest } from '../kit/kit-request.ts'

const group = 'batch'
const LARGEST = 8

function unlessBatches({ batch }: CACapabilities): string | undefined {
  return batch === undefined ? 'the client has no issueBatch' : undefined
}

async function manyRequests(on: Subject): Promise<readonly KitRequest[]> {
  const size = Math.min(on.capabilities.batch ?? 1, LARGEST)
  return Promise.all(
    Array.from({ length: size }, (_, index) => {
      const identity = on.identities[index % on.identities.length]
      return kitRequest(on, identity === undefined ? {} : { identity })
    }),
  )
}

async function issueBatch(on: Subject, requests: readonly KitRequest[]) {
  assert.ok(on.client.issueBatch, 'issueBatch is missing though capabilities.batch is set')
  const answers = await inTime(on.client.issueBatch(requests), on.patienceMs, 'issueBatch()')
  assert.equal(answers.length, requests.length, `${requests.length} requests have ${answers.length} answers`)
  return answers
}

function expectGood(on: Subject, request: KitRequest, answer: IssuedCertificate | Error | undefined): void {
  assert.ok(answer && !(answer instanceof Error), `a request of the batch failed: ${answer}`)
  expectOwn(on, request, answer)
}

export const batchCases: readonly LiveCase[] = [
  {
    group,
    name: 'the answers of a batch are in the order of its requests',
    skip: unlessBatches,
    async run(on) {
      const requests = await manyRequests(on)
      const answers = await issueBatch(on, requests)
      for (const [index, request] of requests.entries()) expectGood(on, request, answers[index])
    },
  },
]

export const partialBatchCases: readonly BenchCase[] = [
  {
    group,
    name: 'a refused request of a batch is a CAError in its place, and the others are answered',
    needs: ['denied'],
    skip: unlessBatches,
    async run(on) {
      const requests = await manyRequests(on)
      const refused = requests.at(1) ?? requests[0]
      on.ca.fault = ({ identity }) =>
        identity === refused?.identity ? { kind: 'refuse', code: 'denied' } : { kind: 'none' }
      const answers = await issueBatch(on, requests)
      for (const [index, request] of requests.entries()) {
        if (request === refused) expectCAError(answers[index], ['denied'], `request ${index} of the batch`)
        else expectGood(on, request, answers[index])
      }
    },
  },
  {
    group,
    name: 'an aborted request of a batch is not waited for, and the others are answered',
    skip: capabilities => unlessBatches(capabilities) ?? unlessBringsKey(capabilities),
    async run(on) {
      const [first, ...others] = await manyRequests(on)
      assert.ok(first)
      const signal = AbortSignal.abort(new Error('nobody waits any more'))
      const answers = await issueBatch(on, [{ ...first, signal }, ...others])
      for (const [index, request] of others.entries()) expectGood(on, request, answers[index + 1])
    },
  },
]

/** The conformance kit, with tokens from a provisioner's key and from the credentials. */
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { PROVISIONER, provisionerPair, startStepCa, writeKey } from '../../../test/step-ca-stand-in.ts'
import { type ConformanceSetup, suite } from '../../conformance/index.ts'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { stepCa } from './index.ts'

const { capabilities } = stepCa
const slow = process.env['LIVERY_SLOW'] === '1'

async function withKey({ ca, context, after }: ConformanceSetup) {
  const { privateJwk, publicJwk } = await provisionerPair()
  const folder = temporaryFolder({ after })
  const server = await startStepCa({ ca, clock: context.clock, provisioner: publicJwk })
  after(() => server[Symbol.asyncDispose]())
  const jwkFile = await writeKey(join(folder, 'key.json'), privateJwk)
  return stepCa.create(context, { address: server.address, provisioner: PROVISIONER, jwkFile })
}

async function withToken({ ca, context, after }: ConformanceSetup) {
  const server = await startStepCa({ ca, clock: context.clock })
  after(() => server[Symbol.asyncDispose]())
  return stepCa.create(context, { address: server.address })
}

const without = { token: 'the plugin signs its tokens itself', 'token-file': 'the plugin signs its tokens itself' }
describe('with a key', { concurrency: 1 }, () => {
  const address = 'https://ca.example:9000'
  const check = () => stepCa.check?.({ address, provisioner: PROVISIONER, jwkFile: '/key.json' }, new Set())
  suite({ test, check, create: withKey, capabilities, without, slow })
})
describe('with a token', { concurrency: 1 }, () => {
  suite({ test, create: withToken, capabilities, timeoutMs: CALL_TIMEOUT_MS, slow })
})

/** The suite, on a plugin that does all that the contract knows; and what it says of options that it cannot use. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CACapabilities } from '@livery/core/plugin'
import { REFERENCE_CAPABILITIES, ReferenceClient } from '../../test/reference-plugin.ts'
import { CA_SWITCHES } from './kit/fake-ca-fault.ts'
import { type SuiteOptions, suite } from './suite.ts'

const reference: Omit<SuiteOptions, 'test'> = {
  create: ({ ca, context }) => new ReferenceClient(ca, context),
  capabilities: REFERENCE_CAPABILITIES,
  slow: process.env['LIVERY_SLOW'] === '1',
}

suite({ test, ...reference })

test('the suite runs by a runner with the shape of vitest', async () => {
  const cases: { readonly name: string; readonly run: (context: object) => unknown }[] = []
  const vitest = (name: string, run: (context: object) => unknown, _timeout?: number) => void cases.push({ name, run })
  suite({ test: vitest, ...reference })
  assert.ok(cases.length > 50, `${cases.length} cases`)
  for (const { run } of cases.filter(({ name }) => /^(contract|errors|close)/.test(name))) await run({ skip() {} })
})

test('a case that the harness cannot run is skipped aloud: by name, and by the runner where it can', async () => {
  const skipped: string[] = []
  const reasons: unknown[] = []
  const running: Promise<void>[] = []
  const without = Object.fromEntries(CA_SWITCHES.map(name => [name, 'not here']))
  suite({
    ...reference,
    capabilities: { roots: 'none', ttl: 'ignored', san: 'csr', keyTypes: ['ecdsa-p256'], bringsKey: true },
    without,
    test: (name, run) => {
      if (!name.includes('(skipped: ')) return
      skipped.push(name)
      running.push(run({ skip: (reason: unknown) => reasons.push(reason) }))
    },
  })
  await Promise.all(running)
  assert.equal(reasons.length, skipped.length)
  assert.ok(
    skipped.some(name => name.endsWith('(skipped: errors without denied: not here)')),
    skipped.join('\n'),
  )
})

test('a check that refuses the configuration, answers later, or opens something fails', async t => {
  const timers = new DisposableStack()
  t.after(() => timers.dispose())
  const checks: readonly (readonly [check: () => unknown, says: RegExp])[] = [
    [() => assert.fail('values that do not go together'), /values that do not go together/],
    [async () => {}, /answers by what it throws/],
    [
      () =>
        void timers.adopt(
          setInterval(() => {}, 60_000),
          clearInterval,
        ),
      /opened these/,
    ],
  ]
  for (const [check, says] of checks) {
    let run = (): Promise<void> => assert.fail('there is no such case')
    suite({
      ...reference,
      check,
      test: (name, each) => {
        if (name.startsWith('contract: check ')) run = each
      },
    })
    await assert.rejects(run(), says)
  }
})

test('a plugin that the agent would not load fails, with each field that is wrong', async () => {
  let run = (): Promise<void> => assert.fail('there is no such case')
  const options = { wait: { type: 'duration', default: 5, description: '' }, user: { type: 'txt', description: '' } }
  const { capabilities: _, ...rest } = reference
  const capabilities: CACapabilities = JSON.parse(JSON.stringify({ ...REFERENCE_CAPABILITIES, roots: 'all' }))
  const plugin = { apiVersion: 1, name: 'My CA', capabilities, options, create() {} }
  suite({
    ...rest,
    plugin,
    test: (name, each) => {
      if (name.startsWith('contract: the agent can load')) run = each
    },
  })
  await assert.rejects(run(), ({ message }: Error) => {
    const fields = message.split('\n').map(line => line.split(' ')[0])
    assert.deepEqual(fields, ['name', 'options.wait.default', 'options.user', 'capabilities.roots'])
    return true
  })
  assert.throws(() => suite({ ...rest, test: () => {} }), /TypeError: .*plugin and capabilities are missing/)
})

test('a switch without a reason, or one that does not exist, is a TypeError that names it', () => {
  const withNothing = { ...reference, test: () => {} }
  assert.throws(() => suite({ ...withNothing, without: { hang: ' ' } }), /TypeError: .*without\.hang is empty/)
  const without: Record<string, string> = { hangs: 'it does' }
  assert.throws(() => suite({ ...withNothing, without }), /TypeError: .*without\.hangs is not a switch/)
})

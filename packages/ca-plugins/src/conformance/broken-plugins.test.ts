/** The suite finds each plugin that is broken on purpose, in the group that it is broken in, and in no other. */
import assert from 'node:assert/strict'
import { closeSync } from 'node:fs'
import { test } from 'node:test'
import { brokenAnswers } from '../../test/broken-answers.ts'
import { brokenConduct, leakedFiles, leakedTimers } from '../../test/broken-conduct.ts'
import { REFERENCE_CAPABILITIES } from '../../test/reference-plugin.ts'
import { type ConformanceGroup, GROUPS } from './kit/conformance-case.ts'
import { suite } from './suite.ts'

/** Only a plugin that hangs takes this long. */
const PATIENCE_MS = 30_000
const SHORT_PATIENCE_MS = 5_000
/** They take the longest: run where they are to fail, and everywhere with LIVERY_SLOW. */
const EXPENSIVE: readonly (ConformanceGroup | undefined)[] = ['memory', 'parallel']
const isSlow = process.env['LIVERY_SLOW'] === '1'

const brokenPlugins = [...brokenAnswers, ...brokenConduct]

for (const { that, fails, client: Client, claims = {}, hangs = false } of brokenPlugins)
  test(`a plugin that ${that} fails ${fails.join(', ')}, and nothing else`, async t => {
    t.after(() => {
      for (const timer of leakedTimers.splice(0)) clearInterval(timer)
      for (const descriptor of leakedFiles.splice(0)) closeSync(descriptor)
    })
    const cases: { readonly name: string; readonly run: () => Promise<void> }[] = []
    suite({
      test: (name, run) => {
        const group = GROUPS.find(each => name.startsWith(`${each}: `))
        const isExpected = group !== undefined && fails.includes(group)
        if (isSlow || isExpected || !EXPENSIVE.includes(group)) cases.push({ name, run })
      },
      create: ({ ca, context }) => new Client(ca, context),
      capabilities: { ...REFERENCE_CAPABILITIES, ...claims },
      patienceMs: hangs ? SHORT_PATIENCE_MS : PATIENCE_MS,
    })
    const failures = new Map<string, string>()
    for (const { name, run } of cases)
      await run().catch((error: unknown) => failures.set(name, error instanceof Error ? error.message : String(error)))
    const groups = new Set([...failures.keys()].map(name => name.split(':')[0]))
    assert.deepEqual([...groups].sort(), [...fails].sort(), [...failures].map(each => each.join('\n  ')).join('\n'))
  })

test('there is a broken plugin for each group', () => {
  const failed = new Set(brokenPlugins.flatMap(({ fails }) => fails))
  assert.deepEqual(
    GROUPS.filter(group => !failed.has(group)),
    [],
  )
})

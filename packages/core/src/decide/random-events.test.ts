/**
 * Millions of random events, each run by its seed: `LIVERY_RANDOM_RUNS` says how many, `LIVERY_RANDOM_SEED` which is the
 * first. A run that fails is made as short as it can be, and printed.
 */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeFixtures } from '../../test/decide/fixtures.ts'
import { drawRun, messageOf, play, type Run, shorten } from '../../test/decide/run.ts'

const RUNS = Number(process.env['LIVERY_RANDOM_RUNS'] ?? 400)
const FIRST_SEED = Number(process.env['LIVERY_RANDOM_SEED'] ?? 1)
const OPERATIONS = 300

const fixtures = await makeFixtures(Date.UTC(2026, 0, 1))

test('random events leave every identity with a plan, and all is well once the faults end', { timeout: 0 }, t => {
  let steps = 0
  for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
    const run = drawRun(seed, OPERATIONS)
    const outcome = play(run, fixtures)
    steps += outcome.steps
    if (outcome.failure) assert.fail(describe(shorten(run, fixtures, messageOf(outcome.failure.error))))
  }
  t.diagnostic(`${steps} decisions in ${RUNS} runs`)
})

function describe(run: Run): string {
  const { failure } = play(run, fixtures)
  const operations = run.operations.map(operation => `  ${JSON.stringify(operation)}`)
  return [
    `seed ${run.seed} (LIVERY_RANDOM_SEED=${run.seed} LIVERY_RANDOM_RUNS=1): ${failure?.error}`,
    `settings ${JSON.stringify(run.settings)}`,
    `operations, after the wait of each:`,
    ...operations,
  ].join('\n')
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeMachine } from '../report.ts'
import type { Comparison } from './comparison.ts'
import { mergeProblem, mergeRuns, type Run } from './run.ts'

const machine = describeMachine(new Date(0))

function row(name: string, sample: number): Comparison {
  return { row: name, work: name, unit: 's', ours: [sample] }
}

function run(...comparisons: readonly Comparison[]): Run {
  return { machine, rounds: 5, comparisons, skipped: [], growths: [] }
}

test('rows that are measured again take the place of their own, and the others stay', () => {
  const last = {
    ...run(row('a', 1), row('b', 1), row('b', 2), row('c', 1)),
    skipped: [{ row: 'b', what: 'peer', reason: 'r' }],
  } as const
  const merged = mergeRuns(last, run(row('b', 3)), ['b'], ['a', 'b', 'c'])
  assert.deepEqual(merged, run(row('a', 1), row('b', 3), row('c', 1)))
})

test('a part goes only into a run of the same day, machine and number of rounds', () => {
  const last = run()
  assert.equal(mergeProblem(last, machine, 5), undefined)
  assert.match(mergeProblem(last, describeMachine(new Date(1e12)), 5) ?? '', /another day or machine \(1970-01-01/)
  assert.match(mergeProblem(last, machine, 3) ?? '', /5 rounds, and this one has 3/)
})

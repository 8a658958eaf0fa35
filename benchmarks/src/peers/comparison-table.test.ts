import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { Comparison } from './comparison.ts'
import { toMarkdown } from './comparison-table.ts'

const machine = {
  cpu: 'A CPU',
  cores: 2,
  memoryGiB: 24,
  system: 'linux',
  node: 'v24',
  date: '2026-11-21',
}
const comparison: Comparison = {
  row: 'serving',
  work: 'SDS response',
  unit: 'µs',
  ours: [30, 20, 25],
  peer: { name: 'Istio agent', samples: [60, 40, 50] },
  target: { of: 'ratio', is: 'at most', value: 0.5 },
}

test('a missed target says no, and one whose peer was not measured neither yes nor no', () => {
  const missed = { ...comparison, ours: [60, 60, 60] }
  assert.match(toMarkdown(machine, 5, [missed], []), /\| ≤ 0\.5× \| no \|$/m)
  const { peer: _, ...alone } = comparison
  assert.match(toMarkdown(machine, 5, [alone], []), /\| 25 µs \(20–30\) \| – \| – \| ≤ 0\.5× \| – \|$/m)
})

test('the README of the repository has rows of the whole table, as they stand there, and each missed one', async () => {
  const lines = async (path: string) => {
    const [, table = ''] = (await readFile(new URL(path, import.meta.url), 'utf8')).split(/<!-- \/?bench:peers -->\n/)
    return table.trim().split('\n')
  }
  const whole = await lines('../../README.md')
  const shown = await lines('../../../README.md')
  for (const line of shown) assert.ok(whole.includes(line), line)
  for (const line of whole.filter(row => row.endsWith('| no |'))) assert.ok(shown.includes(line), line)
})

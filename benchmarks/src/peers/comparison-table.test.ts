import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { Comparison } from './comparison.ts'
import { toMarkdown, withSameRows } from './comparison-table.ts'

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

test('the rows of the README of the repository are replaced by those of the same work and peer', () => {
  const other = { ...comparison, peer: { name: 'WebCrypto', samples: [100, 100, 100] } }
  const old = toMarkdown(machine, 5, [comparison], []).replace('25 µs', '99 µs')
  const readme = `<!-- bench:peers -->\n${old}<!-- /bench:peers -->\n`
  const today = toMarkdown({ ...machine, date: '2026-11-22' }, 5, [other, comparison], [])
  const updated = withSameRows(readme, today)
  assert.equal(updated, readme.replace('99 µs', '25 µs').replace('2026-11-21', '2026-11-22'))
  assert.equal(withSameRows('text', today), undefined)
})

test('the README of the repository has rows of the whole table, as they stand there', async () => {
  const lines = async (path: string) => {
    const [, table = ''] = (await readFile(new URL(path, import.meta.url), 'utf8')).split(/<!-- \/?bench:peers -->\n/)
    return table.trim().split('\n')
  }
  const whole = new Set(await lines('../../README.md'))
  const shown = await lines('../../../README.md')
  assert.equal(shown.length, 2 + 2 + 6)
  for (const line of shown) assert.ok(whole.has(line), line)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LinePlot, linePlot } from './plot.ts'

const growth: LinePlot = {
  title: 'Cold start',
  x: { name: 'identities', log: true },
  y: { name: 'time, s' },
  series: [
    {
      name: 'measured',
      points: [
        [100, 0.3],
        [1_000, 0.8],
        [10_000, 5],
      ],
    },
    { name: 'target', points: [[1_000, 0.9]], dashed: true },
  ],
  marks: [{ name: 'limit', y: 4.5 }],
}

test('equal numbers give an equal file, whatever was drawn before', () => {
  const first = linePlot(growth)
  linePlot({ ...growth, title: 'another' })
  assert.equal(linePlot(growth), first)
})

test('other numbers give another file', () => {
  const other: LinePlot = { ...growth, series: [{ name: 'measured', points: [[100, 0.4]] }] }
  assert.notEqual(linePlot(other), linePlot(growth))
})

test('the title, both axis names, every series and every mark are written on the plot', () => {
  const svg = linePlot(growth)
  for (const text of ['Cold start', 'identities', 'time, s', 'measured', 'target', 'limit', '10,000']) {
    assert.ok(svg.includes(`>${text}</text>`), text)
  }
})

test('every clip path that is used is defined', () => {
  const svg = linePlot(growth)
  const used = [...svg.matchAll(/url\(#([^)]+)\)/g)].map(([, id]) => id)
  assert.ok(used.length > 0)
  for (const id of used) assert.ok(svg.includes(`id="${id}"`), id)
})

test('a plot has its title as text for those who do not see it, and no styles', () => {
  const svg = linePlot({ ...growth, title: 'A < B & C' })
  assert.match(svg, /^<svg [^>]*>\n<title>A &lt; B &amp; C<\/title>/)
  assert.doesNotMatch(svg, /<style|class=/)
})

test('what cannot be drawn is refused by series, axis and value', () => {
  const zero: LinePlot = { ...growth, series: [{ name: 'bad', points: [[0, 1]] }] }
  assert.throws(() => linePlot(zero), /"bad" has identities = 0, but a logarithmic axis/)
  const missing: LinePlot = { ...growth, series: [{ name: 'bad', points: [[1, Number.NaN]] }] }
  assert.throws(() => linePlot(missing), /"bad" has time, s = NaN, but only finite numbers/)
})

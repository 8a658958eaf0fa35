import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type LinePlot, linePlot } from './plot.ts'

const growth: LinePlot = {
  title: 'Cold start',
  conditions: 'a client for each',
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
    { name: 'target', points: [[1_000, 0.9]], line: 'dashed' },
  ],
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

test('the title, the conditions, both axis names and every series are written on the plot', () => {
  const svg = linePlot(growth)
  for (const text of ['Cold start', 'a client for each', 'identities', 'time, s', 'measured', 'target', '10,000']) {
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

/** Left edge of each text, in pixels, with its baseline. */
function textsOf(svg: string): readonly { readonly text: string; readonly x: number; readonly y: number }[] {
  const found = svg.matchAll(/<text [^>]*?(?:transform="translate\(([\d.-]+) ([\d.-]+)\)")[^>]*>([^<]*)</g)
  return [...found].map(([, x, y, text = '']) => ({ text, x: Number(x), y: Number(y) }))
}

test('a long title and long conditions are broken into lines that fit', () => {
  const words = 'Renewals after everything was fetched in one second, with more words than a plot is wide enough for'
  const svg = linePlot({ ...growth, title: words, conditions: `${words}, ${words}` })
  const lines = textsOf(svg).filter(({ text }) => text.length > 15)
  assert.equal(lines.length, 4, JSON.stringify(lines))
  for (const { text } of lines) assert.ok(text.length <= 105, text)
})

test('each series has a line of the legend to itself', () => {
  const names = ['one with quite a long name, as they have', 'another one with a long name', 'a third']
  const series = names.map(name => ({ name, points: [[100, 1]] as const }))
  const heights = textsOf(linePlot({ ...growth, series })).filter(({ text }) => names.includes(text))
  assert.equal(new Set(heights.map(({ y }) => y)).size, names.length, JSON.stringify(heights))
})

test('the range of a point is a stroke of its own, and one without a range has none', () => {
  const strokes = (svg: string) => [...svg.matchAll(/stroke-width="1\.5"/g)].length
  const one: LinePlot = {
    ...growth,
    series: [
      {
        name: 'measured',
        points: [
          [100, 2, 1, 4],
          [1_000, 3],
        ],
      },
    ],
  }
  assert.equal(strokes(linePlot(one)), 1)
  assert.equal(strokes(linePlot(growth)), 0)
})

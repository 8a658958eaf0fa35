/** The files of the page, as they are built. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { buildPage } from './build-page.ts'

const folder = fileURLToPath(new URL('../../agent/page-dist/', import.meta.url))
const MAX_BYTES = 86_000

before(buildPage)

test('all files of the page together are 86 kB at most', () => {
  const sizes = readdirSync(folder).map(name => readFileSync(join(folder, name)).length)
  assert.equal(sizes.length, 4)
  const sum = sizes.reduce((total, size) => total + size, 0)
  assert.ok(sum <= MAX_BYTES, `${sum} bytes`)
})

test('the page names no other host than the runbook host, has no script or style in its HTML, and ships the licences of its libraries', () => {
  const html = readFileSync(join(folder, 'index.html'), 'utf8')
  assert.doesNotMatch(html, /<style|style=|<script(?![^>]* src="\/page\/app\.js"><\/script>)| on\w+=/)
  for (const name of ['index.html', 'app.js', 'app.css']) {
    const addresses = readFileSync(join(folder, name), 'utf8').match(/https?:\/\/[^\s"'`)<>]+/g) ?? []
    // Names of XML are no addresses.
    const others = addresses.filter(
      address => !/^http:\/\/www\.w3\.org\/|^https:\/\/github\.com\/livery\//.test(address),
    )
    assert.deepEqual(others, [], name)
  }
  const licences = readFileSync(join(folder, 'licences.txt'), 'utf8')
  assert.match(licences, /^preact [\d.]+\n[\s\S]*The MIT License[\s\S]*^@preact\/signals [\d.]+\n/m)
})

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parseOptions } from './bench-options.ts'
import { outputFolder } from './report.ts'

const run = promisify(execFile)

test('only --save writes where results are tracked', () => {
  assert.deepEqual(parseOptions([]), { save: false })
  assert.deepEqual(parseOptions(['--save']), { save: true })
  assert.match(outputFolder(false).pathname, /\/\.cache\/benchmarks\/$/)
  assert.match(outputFolder(true).pathname, /\/benchmarks\/$/)
  assert.throws(() => parseOptions(['--keep']), /--keep/)
})

for (const [script, program] of [
  ['bench', 'main.ts'],
  ['bench:peers', 'peers/main.ts'],
  ['simulate', 'simulate.ts'],
  ['soak', 'soak.ts'],
] as const)
  test(`npm run ${script} -- --help prints its options, measures nothing and writes nothing`, async () => {
    const path = fileURLToPath(new URL(program, import.meta.url))
    const { stdout } = await run(process.execPath, ['--conditions=@livery/source', path, '--help'])
    assert.match(stdout, new RegExp(`^Usage: .*npm run ${script} -- \\[options\\]\n`))
    assert.match(stdout, / {2}--save .*write/)
  })

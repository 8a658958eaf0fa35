/** man/livery.1 and docs/reference/commands.md are what the commands make of them; the first is roff that man can show. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { COMMANDS_PAGE, commandsPage } from './commands-page.ts'
import { PAGE, page, program } from './man-page.ts'

test('man/livery.1 is current', async () => {
  assert.equal(await readFile(PAGE, 'utf8'), page(), 'The commands have changed. Run npm run man')
})

test('docs/reference/commands.md is current', async () => {
  const text = await readFile(COMMANDS_PAGE, 'utf8')
  assert.equal(text, commandsPage(program()), 'The commands have changed. Run npm run man')
})

const CHECKS: Readonly<Record<string, readonly string[]>> = {
  groff: ['-man', '-ww', '-Tutf8', '-z', PAGE],
  man: ['--warnings', '-E', 'UTF-8', '-Tutf8', '-Z', '-l', PAGE],
  mandoc: ['-Tlint', '-Wwarning', PAGE],
}

for (const [tool, args] of Object.entries(CHECKS)) {
  const isThere = spawnSync(tool, ['--help']).error === undefined
  test(`${tool} has nothing to say about it`, { skip: isThere ? false : `${tool} is not on this machine` }, () => {
    const { stdout, stderr } = spawnSync(tool, args, { encoding: 'utf8' })
    // A date would change with each build.
    const lines = `${stderr}${tool === 'mandoc' ? stdout : ''}`.split('\n').filter(line => !/missing date/.test(line))
    assert.deepEqual(lines.join(''), '')
  })
}

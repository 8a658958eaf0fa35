/** man/livery.1 is what the commands make of it, and roff that man can show. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { allCommands } from '../src/usage/command-reference.ts'
import { PAGE, page, program } from './man-page.ts'

const text = await readFile(PAGE, 'utf8')

test('man/livery.1 is current', () => {
  assert.equal(text, page(), 'The commands have changed. Run npm run man')
})

test('it has each command with its options and examples, and no machine or hidden command', () => {
  const plain = text
    .replaceAll(/\\f[BIR]/g, '')
    .replaceAll('\\-', '-')
    .replaceAll('\\e', '\\')
    .replaceAll('\\(ti', '~')
    .replaceAll(/\n(?=\S)/g, ' ')
  const commands = allCommands(program()).slice(1)
  assert.ok(commands.length >= 15)
  for (const { path, options, examples } of commands) {
    assert.ok(plain.includes(`.SS ${path}`), path)
    for (const { flags } of options) assert.ok(plain.includes(` ${flags.at(-1)}`), `${path} ${flags}`)
    for (const [example] of examples) assert.ok(plain.includes(`.TP ${example}`), example)
  }
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

const noGroff = spawnSync('groff', ['-v']).error ? 'groff is not on this machine' : false
test('a reader of man sees commands and options', { skip: noGroff }, () => {
  const { stdout } = spawnSync('groff', ['-man', '-Tascii', '-P-cbou', PAGE], { encoding: 'utf8' })
  assert.match(stdout, /^ {3}livery certs \[options\]$/m)
  assert.match(stdout, /^ {7}livery certs --sort expiry --watch$/m)
  assert.match(stdout, /livery doctor --json \| jq "\.\[\] \| select\(\.state == \\"wrong\\"\)"$/m)
  assert.match(stdout, /^EXIT STATUS\n {7}0 {6}ok$/m)
})

/** `livery completion`: what bash, zsh and fish offer, each as it runs for people, and the names of a running agent. */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { delimiter, dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { LiveryProcess, makeDirectory } from './livery-process.ts'
import { runInProcess } from './run-in-process.ts'

const PROGRAM = fileURLToPath(new URL('../bin/livery.js', import.meta.url))
const ZSH_OFFERS = fileURLToPath(new URL('zsh-offers.zsh', import.meta.url))
const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

/** The words that a shell runs to say what it offers for the line `$2` with the script `$1`, one per line. */
const OFFERS: Readonly<Record<Shell, readonly string[]>> = {
  bash: [
    '--norc',
    '-c',
    `source "$1"; [[ $3 ]] && COMP_WORDBREAKS=$3; COMP_LINE=$2 COMP_POINT=\${#2}; _livery_complete
     for word in "\${COMPREPLY[@]}"; do echo "$word"; done`,
    'bash',
  ],
  zsh: ['-f', ZSH_OFFERS],
  fish: ['--no-config', '-c', 'source $argv[1]; complete -C $argv[2] | string split -f 1 \\t; true'],
}

const missing = (shell: Shell) =>
  spawnSync(shell, ['--version']).status === 0 ? false : `${shell} is not on this machine`

/** A folder with the program in a PATH of its own, and the script of a shell. */
async function setUp(shell: Shell) {
  const directory = await makeDirectory()
  const cwd = directory.path
  await mkdir(join(cwd, 'bin'))
  await symlink(PROGRAM, join(cwd, 'bin/livery'))
  const { code, stdout } = await runInProcess(['completion', shell], cwd)
  assert.equal(code, 0)
  const script = join(cwd, '_livery')
  await writeFile(script, stdout)
  const path = [join(cwd, 'bin'), dirname(process.execPath), process.env['PATH']].join(delimiter)
  return {
    cwd,
    /** Sorted; `more`: further arguments of the shell's command. */
    async offers(line: string, ...more: readonly string[]): Promise<readonly string[]> {
      const env = { PATH: path, HOME: cwd, TERM: 'dumb' }
      const { stdout, stderr } = await promisify(execFile)(shell, [...OFFERS[shell], script, line, ...more], {
        cwd,
        env,
      })
      assert.equal(stderr, '', line)
      return stdout
        .split('\n')
        .filter(word => word !== '')
        .sort()
    },
    [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose](),
  }
}

/** Not for bash, which sees a colon as the end of a word: it has a test of its own. */
const NO_BREAKS = ' '
const CASES: readonly (readonly [line: string, offered: readonly string[]])[] = [
  ['livery c', ['ca', 'certs', 'check-config', 'completion']],
  ['livery certs --s', ['--sort']],
  ['livery certs --sort ', ['expiry', 'name']],
  ['livery certs --sort=e', ['expiry']],
  ['livery --admin unix:x certs --f', ['--failing']],
  ['livery certs --admin unix:x --sort n', ['name']],
  ['livery ca --dir x root ', ['add', 'list', 'remove', 'switch']],
  ['livery ca root switch --d', ['--dir']],
  ['livery ca root switch --list', []],
  ['livery ca test emb', ['embedded']],
  ['livery completion ', ['bash', 'fish', 'zsh']],
  ['livery log-level sds:d', ['sds:debug']],
  ['livery --config livery.y', ['livery.yaml']],
]

for (const shell of SHELLS)
  test(`${shell} offers commands, options and values, for the command that is being written`, {
    skip: missing(shell),
  }, async () => {
    await using bench = await setUp(shell)
    await writeFile(join(bench.cwd, 'livery.yaml'), '')
    for (const [line, offered] of CASES) {
      const found = await bench.offers(line, NO_BREAKS)
      // Some put back the option that the value follows.
      assert.deepEqual(
        found.map(word => word.replace(/^--\w+=/, '')),
        offered,
        line,
      )
    }
  })

for (const shell of SHELLS)
  test(`${shell} offers the names that the agent knows, and nothing where none answers`, {
    skip: missing(shell),
  }, async () => {
    await using bench = await setUp(shell)
    const config = { ca: { plugin: 'embedded' }, identities: [WEB, API], sockets: [{ path: 'sds.sock' }], drain: '1s' }
    await writeFile(join(bench.cwd, 'livery.yaml'), JSON.stringify(config))
    await using agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], { cwd: bench.cwd })
    const admin = await agent.admin()
    const offers = (line: string) => bench.offers(line, NO_BREAKS)
    assert.deepEqual(await offers(`livery --admin ${admin} explain spiffe://cluster.local/ns/`), [API, WEB])
    assert.deepEqual(await offers(`livery certs --admin=${admin} --text spiffe://cluster.local/ns/default/sa/w`), [WEB])
    assert.deepEqual(await offers(`livery --admin ${admin} streams R`), ['ROOTCA'])
    assert.deepEqual(await offers('livery --admin 127.0.0.1:1 explain '), [])
  })

test('bash replaces a name only behind its last colon, as readline does', async () => {
  await using bench = await setUp('bash')
  assert.deepEqual(await bench.offers('livery log-level sds:d'), ['debug'])
  assert.deepEqual(await bench.offers('livery certs --sort=e'), ['expiry'])
  assert.deepEqual(await bench.offers('livery certs --sort=e', ':'), ['--sort=expiry'])
})

/** Another program at the admin address. */
async function standIn(answer: RequestListener) {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    admin: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.dispose]: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

test('no answer can run a command, or put more than a plain word on the line', async () => {
  await using bench = await setUp('bash')
  const hostile = ['$(touch pwned)', '`touch pwned`', 'a;touch pwned', '-x', '~/x', 'spiffe://a/b c', '\u001b[2J', '*']
  using server = await standIn((_request, response) => response.end([...hostile, 'spiffe://good/name'].join('\n')))
  assert.deepEqual(await bench.offers(`livery --admin ${server.admin} explain `, NO_BREAKS), ['spiffe://good/name'])
  assert.equal(existsSync(join(bench.cwd, 'pwned')), false)
})

test('a program that does not answer holds nobody up, and is not mentioned on the line', async () => {
  using server = await standIn(() => {})
  const { code, stdout, stderr } = await runInProcess(['completion', 'names', '--admin', server.admin], '/nowhere')
  assert.deepEqual([code, stdout, stderr], [1, '', ''])
})

test('another shell is refused with those that are known', async () => {
  const { code, stderr } = await runInProcess(['completion', 'tcsh'], '/nowhere')
  assert.equal(code, 2)
  assert.match(stderr, /'tcsh' is invalid.*Allowed choices are bash, zsh, fish/)
})

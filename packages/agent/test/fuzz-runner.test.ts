/** Faults that fuzzing found stay fixed, and the runner sees each kind of fault. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const cache = join(root, '.cache')
mkdirSync(cache, { recursive: true })

function fuzz(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
  const env = { ...process.env, CI: 'true' }
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/fuzz.mjs', ...args], {
    cwd: root,
    env,
    encoding: 'utf8',
  })
  return { status, output: `${stdout}${stderr}` }
}

test('every input that is kept in a corpus holds', () => {
  const { status, output } = fuzz('--replay')
  assert.equal(status, 0, output)
})

const faults: Record<string, readonly [string, RegExp]> = {
  'an exception': ['export function run(n) { if (n > 10) throw new Error("too big") }', /fails with 11\n.*too big/s],
  'an unhandled rejection': [
    'export function run(n) { if (n > 10) Promise.reject("lost") }',
    /an unhandled rejection: lost/,
  ],
  'a loop': [
    'export function run(n) { if (n > 10) for (const begun = process.threadCpuUsage(); process.threadCpuUsage(begun).user < 30_000; ); }\nexport const maxCpuMs = 15',
    /ms of CPU, more than 15, each time/,
  ],
  'a leak': [
    'const kept = []\nexport function run(n) { kept.push(new Array(10_000).fill(n)) }',
    /keeps memory: \d+\.\d MB more/,
  ],
  'a crash': ['export function run(n) { if (n > 10) process.abort() }', /ended by SIGABRT/],
  'an input that never ends': [
    'export function run(n) { if (n > 10) return new Promise(() => {}) }',
    /waits for a promise that nothing can settle.*the input is \d+\n/s,
  ],
  'a fault that needs earlier inputs, and blames none': [
    'let count = 0\nexport function run() { if (++count > 500) process.abort() }',
    /ended by SIGABRT[^\n]*\n[^\n]*the same inputs pass in a new process/,
  ],
}
for (const [fault, [source, report]] of Object.entries(faults))
  test(`the runner reports ${fault}`, () => {
    const folder = mkdtempSync(join(cache, 'planted-'))
    try {
      writeFileSync(
        join(folder, 'planted.fuzz.ts'),
        `import fc from 'fast-check'\nexport const inputs = fc.nat(1_000)\n${source}\n`,
      )
      const pattern = join('.cache', basename(folder), 'planted.fuzz.ts')
      const { status, output } = fuzz('--minutes', '0.02', '--seed', '1', '--subjects', pattern)
      assert.equal(status, 1, output)
      assert.match(output, report)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

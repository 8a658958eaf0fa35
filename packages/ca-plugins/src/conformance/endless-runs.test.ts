/** Runs of the suite that a plugin would keep from ending: each ends, and its report names the fault. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

interface Run {
  readonly isOk: boolean
  /** The text of both outputs. */
  readonly text: string
  /** It was ended from outside. */
  readonly wasEndless: boolean
}

const PATIENCE_MS = 45_000

function runSuite(file: string): Promise<Run> {
  const path = fileURLToPath(new URL(`../../test/endless/${file}`, import.meta.url))
  const args = ['--conditions=@livery/source', '--test', '--test-reporter=tap', path]
  // Run by a test, Node.js would report to its runner and not to its output.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env
  return new Promise(resolve => {
    execFile(process.execPath, args, { env, timeout: PATIENCE_MS }, (error, stdout, stderr) =>
      resolve({ isOk: error === null, text: stdout + stderr, wasEndless: error?.killed === true }),
    )
  })
}

test('a plugin that blocks the event loop ends its run: the case is named', async () => {
  const { isOk, text, wasEndless } = await runSuite('blocked-event-loop.ts')
  assert.ok(!wasEndless, text)
  assert.ok(!isOk, text)
  assert.match(text, /"contract: a certificate is for the identity .*" has blocked the event loop for 2 s/)
})

test('a plugin that leaves a watcher open fails, and its run ends', async () => {
  const { isOk, text, wasEndless } = await runSuite('leaked-watcher.ts')
  assert.ok(!wasEndless, text)
  assert.ok(!isOk, text)
  assert.match(text, /^not ok .* handles: no socket/m)
  assert.match(text, /3 of: file watcher, opened at \S+broken-conduct\.ts:\d+:\d+/)
})

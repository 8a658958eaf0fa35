/** The commands of the README on a machine without Rust: they run on WebCrypto and say what is skipped. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pathWithoutCargo, shellEnvironment } from './command.ts'
import { noCopy, WorkingCopy } from './working-copy.ts'

/** A whole suite and a whole installation, on a busy machine. */
const TIMEOUT_MS = 600_000
const path = pathWithoutCargo()
const skip =
  noCopy || (path === undefined ? 'npm and cargo are in one folder: PATH cannot have one without the other' : false)

test('npm test runs without cargo, and counts as skipped what needs the addon', {
  skip,
  timeout: TIMEOUT_MS,
}, async () => {
  using copy = new WorkingCopy()
  await using tests = copy.start('npm', ['test', '--', '--workspace=packages/native-keygen'], shellEnvironment(path))
  assert.equal(await tests.code(), 0, tests.output)
  assert.match(tests.output, /livery setup: cargo was not found: keys come from WebCrypto/)
  assert.match(tests.output, /# Cannot load the native key generator/)
  assert.ok(Number(/pass (\d+)/.exec(tests.output)?.[1]) > 50, tests.output)
})

test('npm run bench measures WebCrypto without cargo, and names the rows that it skips', {
  skip,
  timeout: TIMEOUT_MS,
}, async () => {
  using copy = new WorkingCopy()
  await using bench = copy.start('npm', ['run', 'bench'], shellEnvironment(path))
  await bench.line(/SKIPPED native rows: Cannot load the native key generator/)
  // The suite after keys: those are measured.
  await bench.line(/SecretManager …/)
})

/** The commands of docs/run/root-rotation.md, word for word. */
import assert from 'node:assert/strict'
import { readFile, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readPeerCredentials } from '@livery/native-keygen'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { Process } from './envoy-bench.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
/** Replaced by a free one: other runs of this test share the machine. */
const ADDRESS = '127.0.0.1:15112'

/** `livery trust hold` is for the operator, whom a UNIX socket shows by SO_PEERCRED. */
const skip = readPeerCredentials ? false : 'no addon to recognise the operator on a UNIX socket'

test('the guide to a root rotation works word for word', { timeout: 240_000, skip }, async ({ signal }) => {
  using folder = new TemporaryFolder()
  await symlink(join(ROOT, 'node_modules'), join(folder.path, 'node_modules'))
  const guide = await readFile(join(ROOT, 'docs/run/root-rotation.md'), 'utf8')
  const commands = [...guide.matchAll(/```sh\n(.*?)```/gs)].map(([, block]) => block ?? '')
  assert.ok(commands.length >= 6)
  // Job control, as in a terminal: the guide ends its programs by their numbers.
  const script = ['set -m -e -o pipefail', 'trap "kill %1 %2 2>/dev/null || true" EXIT', ...commands]
    .join('\n')
    .replaceAll(ADDRESS, `127.0.0.1:${await freePort()}`)
  await using shell = new Process('bash', ['-c', script], { cwd: folder.path })
  // Its trap ends the programs that it started.
  signal.addEventListener('abort', () => shell.child.kill('SIGTERM'))
  await shell.exited
  assert.equal(shell.child.exitCode, 0, shell.output)
  assert.match(shell.output, / {2}held {8}1 certificate| {2}held {8}0 certificates/)
  assert.match(shell.output, /is retiring now/)
  const last = shell.output.slice(shell.output.lastIndexOf('cluster.local: '))
  assert.match(last, /^cluster\.local: steady\n {2}[0-9a-f]{16} {2}trusted {5}1 certificate\n/)
})

// Builds the native addon where it is missing or older than its sources: `npm run native`. `--while PID` builds in the background
// for that process: at the lowest priority, with its output in a log file, and it stops when the process ends.
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fingerprint, isDone, root, runGroup, say } from './setup-step.mjs'

const folder = join(root, 'packages', 'native-keygen')
const cache = join(root, '.cache')
const stamp = join(cache, 'native-stamp')
const PARENT_CHECK_MS = 500

/** The output of a build in the background. */
export const ADDON_LOG = join(cache, 'addon-build.log')

/** The process id of that build: the agent says by it that the addon is being built (packages/native-keygen/src/addon.ts). */
export const ADDON_PID = join(folder, '.cache', 'addon-build.pid')

/** `stale`: its sources have changed since it was built. */
export function addonState() {
  if (!readdirSync(folder).some(name => name.endsWith('.node'))) return 'absent'
  return isDone(stamp, fingerprint(sources())) ? 'current' : 'stale'
}

export function hasCargo() {
  return spawnSync('cargo', ['--version']).status === 0
}

/** Resolves with whether it was built. `output`: a file descriptor. */
export async function buildAddon(output) {
  mkdirSync(cache, { recursive: true })
  // Computed first: a source that changes during the build makes the addon stale.
  const wanted = fingerprint(sources())
  const built = mkdtempSync(join(cache, 'addon-'))
  const removeBuilt = () => rmSync(built, { recursive: true, force: true })
  process.once('exit', removeBuilt)
  const napi = join(folder, 'node_modules', '.bin', 'napi')
  const options = ['--platform', '--release', '--no-js', '--dts', 'binding.ts', '--output-dir', built]
  const status = await runGroup(napi, ['build', ...options, '--', '--locked'], { cwd: folder, output })
  if (status === 0) {
    place(built)
    writeFileSync(stamp, wanted)
  }
  removeBuilt()
  return status === 0
}

/** A rename: a process with the old addon keeps it, and none finds half of the new one. */
function place(built) {
  for (const name of readdirSync(built))
    renameSync(join(built, name), join(folder, name === 'binding.ts' ? 'src/gen/binding.ts' : name))
}

function sources() {
  const paths = ['.cargo/config.toml', 'Cargo.toml', 'Cargo.lock'].map(name => join(root, name))
  for (const name of ['Cargo.toml', 'build.rs']) paths.push(join(folder, name))
  for (const name of readdirSync(join(folder, 'rust'), { recursive: true }))
    if (name.endsWith('.rs')) paths.push(join(folder, 'rust', name))
  return paths.sort()
}

async function buildWhile(pid) {
  setPriority(19)
  mkdirSync(cache, { recursive: true })
  const watch = setInterval(() => isAlive(pid) || process.kill(process.pid, 'SIGTERM'), PARENT_CHECK_MS)
  const log = openSync(ADDON_LOG, 'w')
  const isBuilt = await buildAddon(log)
  closeSync(log)
  clearInterval(watch)
  rmSync(ADDON_PID, { force: true })
  say(
    isBuilt ? 'the native addon is built: the next start uses it' : `the native addon did not build: see ${ADDON_LOG}`,
  )
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return error.code === 'EPERM'
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [flag, pid] = process.argv.slice(2)
  if (flag === '--while') await buildWhile(Number(pid))
  else if (!(await buildAddon(2))) {
    say('the native addon did not build: see the messages above')
    process.exit(1)
  }
}

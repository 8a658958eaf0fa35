/** The sources of the programs to measure against build, and pass their own tests. Needs Go and its modules. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const FOLDER = fileURLToPath(new URL('../../peers/', import.meta.url))
/** A first build compiles gRPC. */
const TIMEOUT_MS = 600_000
const isSlow = process.env['LIVERY_SLOW'] === '1'

/** Why `folder` cannot be built here; `false` if it can. */
async function obstacle(folder: string): Promise<string | false> {
  try {
    await run('go', ['mod', 'download'], { cwd: FOLDER + folder })
    return false
  } catch (error) {
    const reason = error instanceof Error ? error.message.trim().split('\n').at(-1) : String(error)
    return `Go and the modules of benchmarks/peers/${folder} are not here: ${reason}`
  }
}

for (const folder of ['neutralca', 'sdsload'])
  test(`${folder} builds and passes its tests`, { timeout: TIMEOUT_MS, skip: await obstacle(folder) }, async () => {
    const { stdout } = await run('go', ['test', './...'], { cwd: FOLDER + folder })
    assert.match(stdout, /^ok\s/m)
  })

for (const [folder, ...build] of [
  ['istio', 'vet', './...'],
  ['spire', 'build', 'tool'],
] as const) {
  const skip = isSlow ? await obstacle(folder) : 'compiling takes minutes: set LIVERY_SLOW=1'
  test(`the programs of ${folder} build`, { timeout: TIMEOUT_MS, skip }, async () => {
    await run('go', build, { cwd: FOLDER + folder })
  })
}

/** Working copies of Livery, this one and another to measure beside it, and each one's program as users run it. */
import { execFile } from 'node:child_process'
import { access, cp, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PACKAGE = 'packages/agent'
const PROGRAM = join(PACKAGE, 'bin/livery.js')
const BUNDLER = join(PACKAGE, 'bundle.mjs')

export interface WorkingCopy {
  /** Its commit, which names it in the table. */
  readonly name: string
  readonly folder: string
}

export const THIS_COPY = fileURLToPath(new URL('../../../', import.meta.url))

/** Throws if `folder` is not a working copy of Livery. */
export async function openWorkingCopy(folder: string): Promise<WorkingCopy> {
  const path = resolve(process.env['INIT_CWD'] ?? '.', folder)
  await access(join(path, PROGRAM)).catch(cause => {
    throw new Error(`--against ${folder} has no ${PROGRAM}: name a working copy of Livery that is set up`, { cause })
  })
  const { stdout } = await run('git', ['-C', path, 'rev-parse', '--short', 'HEAD'])
  return { name: `commit ${stdout.trim()}`, folder: path }
}

const programs = new Map<string, Promise<string>>()

/** The path of the program, bundled once from the current sources; from source in a copy from before the bundle. */
export function programOf(copy: string): Promise<string> {
  const known = programs.get(copy) ?? bundle(copy)
  programs.set(copy, known)
  return known
}

/** The program runs from sources if they are beside it: the bundle gets a folder like an installed package's. */
async function bundle(copy: string): Promise<string> {
  const source = join(copy, PROGRAM)
  const canBundle = await access(join(copy, BUNDLER)).then(
    () => true,
    () => false,
  )
  if (!canBundle) return source
  await run(process.execPath, [BUNDLER], { cwd: copy })
  const folder = join(copy, '.cache/benchmarks/installed')
  await rm(folder, { recursive: true, force: true })
  for (const part of ['bin', 'dist', 'package.json'])
    await cp(join(copy, PACKAGE, part), join(folder, part), { recursive: true })
  return join(folder, 'bin/livery.js')
}

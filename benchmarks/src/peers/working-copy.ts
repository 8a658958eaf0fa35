/** Working copies of Livery, this one and another to measure beside it, and the program of each as its users run it. */
import { execFile } from 'node:child_process'
import { access, copyFile, mkdir, rm, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PROGRAM = 'packages/agent/bin/livery.js'
const BUNDLER = 'packages/agent/bundle.mjs'
const BUNDLE = 'packages/agent/dist'

export interface WorkingCopy {
  /** Its commit, for the table. */
  readonly name: string
  readonly folder: string
}

export const THIS_COPY = fileURLToPath(new URL('../../../', import.meta.url))

/** Throws where `folder` is not a working copy of Livery. */
export async function openWorkingCopy(folder: string): Promise<WorkingCopy> {
  const path = resolve(process.env['INIT_CWD'] ?? '.', folder)
  await access(join(path, PROGRAM)).catch(cause => {
    throw new Error(`--against ${folder} has no ${PROGRAM}: name a working copy of Livery that is set up`, { cause })
  })
  const { stdout } = await run('git', ['-C', path, 'rev-parse', '--short', 'HEAD'])
  return { name: `commit ${stdout.trim()}`, folder: path }
}

const programs = new Map<string, Promise<string>>()

/** The path of the program, bundled from the sources of now, once; from source in a copy from before the bundle. */
export function programOf(copy: string): Promise<string> {
  const known = programs.get(copy) ?? bundle(copy)
  programs.set(copy, known)
  return known
}

/** Beside sources the program runs from them, so that the bundle gets a folder as an installed package has it. */
async function bundle(copy: string): Promise<string> {
  const source = join(copy, PROGRAM)
  const canBundle = await access(join(copy, BUNDLER)).then(
    () => true,
    () => false,
  )
  if (!canBundle) return source
  await run(process.execPath, [BUNDLER], { cwd: copy })
  const folder = join(copy, '.cache/benchmarks/installed')
  const program = join(folder, 'bin/livery.js')
  await rm(folder, { recursive: true, force: true })
  await mkdir(dirname(program), { recursive: true })
  await copyFile(source, program)
  await symlink(join(copy, BUNDLE), join(folder, 'dist'))
  return program
}

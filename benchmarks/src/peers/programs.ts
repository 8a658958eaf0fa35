/** Finds the programs to measure against in the folder that LIVERY_PEERS names. */
import { access, constants, stat } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'

export const PROGRAMS = [
  'neutralca',
  'sdspeer',
  'sdsload',
  'istio-gencsr.test',
  'spire-server',
  'spire-agent',
  'ztunnel-manager',
] as const
export type Program = (typeof PROGRAMS)[number]

/** The path of each program, or why it cannot be used. */
export type Programs = Readonly<Record<Program, { readonly path: string } | { readonly absent: string }>>

/**
 * Looks for every program in `folder`, the value of LIVERY_PEERS. A missing one is `absent` with the reason; a
 * folder that is not the absolute path of a directory and a file that cannot be executed are errors.
 */
export async function findPrograms(folder: string | undefined): Promise<Programs> {
  if (folder !== undefined) await checkFolder(folder)
  const entries = PROGRAMS.map(async name => [name, await findProgram(folder, name)] as const)
  return Object.fromEntries(await Promise.all(entries)) as Programs
}

/** Why one of `needed` is missing, or `undefined` if all are there. */
export function whatIsAbsent(programs: Programs, needed: readonly Program[]): string | undefined {
  const reasons = needed.flatMap(name => {
    const found = programs[name]
    return 'absent' in found ? [found.absent] : []
  })
  return reasons.length === 0 ? undefined : [...new Set(reasons)].join('; ')
}

/** The path of a program; throws if it is missing. */
export function pathOf(programs: Programs, name: Program): string {
  const found = programs[name]
  if ('absent' in found) throw new Error(`Cannot run ${name}: ${found.absent}`)
  return found.path
}

async function checkFolder(folder: string): Promise<void> {
  if (!isAbsolute(folder))
    throw new Error(
      `Cannot use LIVERY_PEERS=${folder}: it is a relative path, and npm changes the directory. Write the absolute path`,
    )
  const found = await stat(folder).catch(() => undefined)
  if (!found?.isDirectory())
    throw new Error(
      `Cannot use LIVERY_PEERS=${folder}: it is ${found ? 'not a directory' : 'not there'}. Name the folder with ${PROGRAMS.join(', ')}`,
    )
}

async function findProgram(folder: string | undefined, name: Program): Promise<Programs[Program]> {
  if (folder === undefined) return { absent: 'LIVERY_PEERS is not set' }
  const path = join(folder, name)
  const found = await stat(path).catch(() => undefined)
  if (!found?.isFile()) return { absent: `LIVERY_PEERS has no file ${name}` }
  await access(path, constants.X_OK).catch(cause => {
    throw new Error(`Cannot run ${path}: it is not executable. chmod +x it, or remove it to skip its rows`, { cause })
  })
  return { path }
}

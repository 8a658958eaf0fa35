/** Inherited descriptors of the agent that would pass on to its child processes. */
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = '/proc/self/fdinfo'
const O_CLOEXEC = 0o2000000
let known: readonly number[] | undefined

/**
 * Excludes standard input and output. Node marks descriptors below 16, and all that it opens, to be closed, so the result
 * does not change later. Empty without `/proc`.
 */
export function inheritedDescriptors(): readonly number[] {
  known ??= inherited()
  return known
}

function inherited(): number[] {
  try {
    return readdirSync(FOLDER)
      .map(Number)
      .filter(descriptor => descriptor > 2 && passesOn(descriptor))
  } catch {
    return []
  }
}

function passesOn(descriptor: number): boolean {
  try {
    const [, flags = '0'] = /^flags:\s*([0-7]+)/m.exec(readFileSync(`${FOLDER}/${descriptor}`, 'utf8')) ?? []
    return (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    return false // the descriptor of the folder, which is closed again
  }
}

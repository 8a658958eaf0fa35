/** Descriptors that the agent was started with and that would pass to a process that it starts. */
import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = '/proc/self/fdinfo'
const O_CLOEXEC = 0o2000000
let known: readonly number[] | undefined

/**
 * All but those of standard input and output. Node marks those below 16 to be closed, and all
 * that it opens itself, so this does not change later. Without `/proc` none is known.
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
    return false // that of the folder, which is closed again
  }
}

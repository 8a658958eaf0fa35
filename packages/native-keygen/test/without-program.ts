/** Why a test that needs a program is skipped. */
import { execFileSync } from 'node:child_process'

/** `false` where the program is there; it must know the argument `version`. */
export function without(program: 'go' | 'openssl'): string | false {
  try {
    execFileSync(program, ['version'], { stdio: 'ignore' })
    return false
  } catch {
    return `${program} is not installed`
  }
}

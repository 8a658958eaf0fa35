/** Garbage collection on demand. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

let gc: NodeJS.GCFunction | undefined

/** Collects all garbage at once. */
export function collectGarbage(): void {
  gc ??= globalThis.gc ?? exposedGc()
  void gc({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}

/**
 * Gives what the option `--expose-gc` gives, without its cost: V8 accepts compiled code only under the flags of its compilation, so
 * with the option each start compiles Node's own modules. The flag is reset at once, for code that is compiled later.
 */
function exposedGc(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  try {
    return runInNewContext('gc')
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}

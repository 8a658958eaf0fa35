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
 * What the option `--expose-gc` gives, without what it costs: V8 takes compiled code only under the flags that it was compiled under, so
 * that with the option each start compiles Node's own modules. The flag is back at once, for code that is compiled later.
 */
function exposedGc(): NodeJS.GCFunction {
  setFlagsFromString('--expose-gc')
  try {
    return runInNewContext('gc')
  } finally {
    setFlagsFromString('--no-expose-gc')
  }
}

/** The options of Node. None changes how V8 compiles: V8 would then refuse the compiled code of Node's own modules. */
export const NODE_OPTIONS = [
  // A signal would otherwise open a debugger, which can read all keys.
  '--disable-sigusr1',
  // Half of V8's default, in MiB: a cold start with 10,000 identities takes as long, and leaves a quarter less resident.
  '--max-semi-space-size=8',
  // Large from the start: V8 starts with small ones, and meanwhile repeatedly copies what a thousand requests hold.
  '--min-semi-space-size=8',
]

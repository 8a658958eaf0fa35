/** What Node is started with. None changes how V8 compiles: it would refuse the compiled code of Node's own modules. */
export const NODE_OPTIONS = [
  // Without it a signal would open a debugger, to which all keys lie open.
  '--disable-sigusr1',
  // Half of V8's default, in MiB: a cold start with 10,000 identities takes as long, and leaves a quarter less resident.
  '--max-semi-space-size=8',
  // From the beginning: V8 starts with small ones, and copies what a thousand requests hold again and again meanwhile.
  '--min-semi-space-size=8',
]

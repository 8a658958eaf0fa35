#!/usr/bin/env node
// Starts the program: from source in the repository, from its bundle in an installed package.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const major = Number.parseInt(process.versions.node, 10)
if (major < 24) {
  process.stderr.write(
    `livery: Node ${process.versions.node} is too old: it needs 24 or newer (npx livery and npm start bring their own)\n`,
  )
  process.exit(1)
}
const source = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const packed = fileURLToPath(new URL('../dist/bundle/main.js', import.meta.url))
const program = existsSync(source) ? ['--conditions=@livery/source', source] : [packed]
const options = [
  // Without it a signal would open a debugger, to which all keys lie open.
  '--disable-sigusr1',
  // Half of V8's default, in MiB: a cold start with 10,000 identities takes as long, and leaves a quarter less resident.
  '--max-semi-space-size=8',
  // For the agent to collect its garbage when a storm of certificates is over: 10,000 identities leave 80 MB.
  '--expose-gc',
]
const environment = {
  // The key threads would each get a heap of their own from glibc, which keeps what was freed there.
  MALLOC_ARENA_MAX: '2',
  // A second start need not compile again: 0.25 s instead of 0.4. Where it cannot write, Node goes without.
  NODE_COMPILE_CACHE: fileURLToPath(new URL('../.cache/compiled', import.meta.url)),
  ...process.env,
}
const node = [process.execPath, ...options, ...process.execArgv]
// execve replaces this process, so that signals and the exit code need no relay.
process.execve(process.execPath, [...node, ...program, ...process.argv.slice(2)], environment)

#!/bin/sh
':' //; export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX-2}"; node --disable-sigusr1 -v >/dev/null 2>&1 && exec node --disable-sigusr1 --max-semi-space-size=8 --min-semi-space-size=8 "$0" "$@"; exec node "$0" "$@"
// Starts the program: from source in the repository, from its bundle in an installed package. The line above, a string and a comment
// for Node, is for the shell: it gives Node `options`, where Node knows them, so that Node need not start twice.
import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import module from 'node:module'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isNeededNode, NEEDED_NODE } from './needed-node.js'

if (!isNeededNode(process.versions.node)) {
  process.stderr.write(
    `livery: Node ${process.versions.node} is too old: it needs ${NEEDED_NODE} (npx livery and npm start bring their own)\n`,
  )
  process.exit(1)
}
// The second line of this file has them, too. None changes how V8 compiles: it would refuse the compiled code of Node's own modules.
const options = [
  // Without it a signal would open a debugger, to which all keys lie open.
  '--disable-sigusr1',
  // Half of V8's default, in MiB: a cold start with 10,000 identities takes as long, and leaves a quarter less resident.
  '--max-semi-space-size=8',
  // From the beginning: V8 starts with small ones, and copies what a thousand requests hold again and again meanwhile.
  '--min-semi-space-size=8',
]
const environment = {
  // The key threads would each get a heap of their own from glibc, which keeps what was freed there.
  MALLOC_ARENA_MAX: '2',
  ...compileCache(),
  ...process.env,
}
const source = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const packed = new URL('../dist/bundle/main.js', import.meta.url)
const isFromSource = existsSync(source)
const isInForce = options.every(option => process.execArgv.includes(option)) && 'MALLOC_ARENA_MAX' in process.env
if (isInForce && !isFromSource) {
  const { NODE_COMPILE_CACHE } = environment
  if (NODE_COMPILE_CACHE) {
    module.enableCompileCache(NODE_COMPILE_CACHE)
    // For its threads and processes.
    process.env.NODE_COMPILE_CACHE = NODE_COMPILE_CACHE
  }
  await import(packed.href)
} else {
  const program = isFromSource ? ['--conditions=@livery/source', source] : [fileURLToPath(packed)]
  const node = [process.execPath, ...options, ...process.execArgv]
  // execve replaces this process, so that signals and the exit code need no relay.
  process.execve(process.execPath, [...node, ...program, ...process.argv.slice(2)], environment)
}

/** A second start need not compile again. The cache is code: only root and this user may be able to write to it. */
function compileCache() {
  const folder = fileURLToPath(new URL('../.cache/compiled', import.meta.url))
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    // A user that can write to the folder above could replace it.
    return [dirname(folder), folder].every(isOurs) ? { NODE_COMPILE_CACHE: folder } : {}
  } catch {
    // The folder of the program is read-only.
    return {}
  }
}

function isOurs(folder) {
  const { uid, mode } = lstatSync(folder)
  return (uid === 0 || uid === process.geteuid?.()) && (mode & 0o022) === 0
}

#!/bin/sh
':' //; export MALLOC_ARENA_MAX="${MALLOC_ARENA_MAX-2}"; node --disable-sigusr1 -v >/dev/null 2>&1 && exec node --disable-sigusr1 --max-semi-space-size=8 --min-semi-space-size=8 "$0" "$@"; exec node "$0" "$@"
// Starts the program: from source in the repository, from its bundle in an installed package. The line above is a string and a comment
// for Node, and a command for the shell: it passes `NODE_OPTIONS`, where Node knows them, so that Node need not start twice.
import { isNeededNode, NEEDED_NODE } from './needed-node.js'
import { NODE_OPTIONS } from './node-options.js'

if (!isNeededNode(process.versions.node)) {
  process.stderr.write(
    `livery: Node ${process.versions.node} is too old: it needs ${NEEDED_NODE} (npx livery and npm start bring their own)\n`,
  )
  process.exit(1)
}
// Not imported: an import makes Node read every export, and load the modules behind lazy ones.
const { existsSync, lstatSync, mkdirSync } = process.getBuiltinModule('node:fs')
const { enableCompileCache } = process.getBuiltinModule('node:module')
const { dirname } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')

const environment = {
  // Limits glibc's arenas: each key thread would otherwise get one, which keeps freed memory.
  MALLOC_ARENA_MAX: '2',
  ...compileCache(),
  ...process.env,
}
const source = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const packed = new URL('../dist/bundle/main.js', import.meta.url)
const isFromSource = existsSync(source)
const isInForce = NODE_OPTIONS.every(option => process.execArgv.includes(option)) && 'MALLOC_ARENA_MAX' in process.env
if (isInForce && !isFromSource) {
  const { NODE_COMPILE_CACHE, NODE_DISABLE_COMPILE_CACHE } = environment
  const folder = NODE_DISABLE_COMPILE_CACHE === undefined ? NODE_COMPILE_CACHE : undefined
  if (folder) {
    // The cache serves threads and processes, and packages outside the bundle.
    enableCompileCache(folder)
    process.env.NODE_COMPILE_CACHE = folder
  }
  // Only an installed program needs it.
  const { runBundled } = await import('./bundled-program.js')
  runBundled(packed.href, folder, import.meta.resolve)
} else {
  const program = isFromSource ? ['--conditions=@livery/source', source] : [fileURLToPath(import.meta.url)]
  const missing = NODE_OPTIONS.filter(option => !process.execArgv.includes(option))
  const node = [process.execPath, ...missing, ...process.execArgv]
  // execve replaces this process, so that signals and the exit code need no relay.
  process.execve(process.execPath, [...node, ...program, ...process.argv.slice(2)], environment)
}

/** Saves a second start from compiling. The cache is code: only root and this user may be able to write to it. */
function compileCache() {
  const folder = fileURLToPath(new URL('../.cache/compiled', import.meta.url))
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    // A user with write access to the folder above could replace it.
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

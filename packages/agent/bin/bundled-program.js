// Not imported: for that Node reads every export, and loads what is behind those that are lazy.
const { readFileSync, renameSync, rmSync, writeFileSync } = process.getBuiltinModule('node:fs')
const { createRequire } = process.getBuiltinModule('node:module')
const { join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')
const { debuglog } = process.getBuiltinModule('node:util')
const { constants, Script } = process.getBuiltinModule('node:vm')
const { crc32 } = process.getBuiltinModule('node:zlib')

/** By then an agent has started, and issued its first certificates. */
const KEPT_AFTER_MS = 3_000
/** Of the program, and of its compiled code. */
const CHECKSUMS_BYTES = 8

const debug = debuglog('livery')

/**
 * Runs the program that bundle.mjs has made at `url`, with the code in `folder` that V8 compiled for an earlier `livery run`, and keeps
 * there what this one compiles. Node's own cache takes a module before it has run: without the functions that are compiled when they
 * are first called, which is 80 ms of CPU in a start.
 */
export function runBundled(url, folder, resolve) {
  const filename = fileURLToPath(url)
  const source = readFileSync(filename)
  const file = folder ? join(folder, `program-${process.version}-${process.arch}`) : undefined
  const cachedData = file === undefined ? undefined : readCode(file, source)
  const script = new Script(source.latin1Slice(), {
    filename,
    cachedData,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  const isTaken = cachedData !== undefined && !script.cachedDataRejected
  debug(isTaken ? 'the compiled code in %s is taken' : 'no compiled code, looked for: %s', file ?? 'nowhere')
  script.runInThisContext()(createRequire(filename), { url, resolve })
  // Another command compiles less, and ends earlier.
  if (file !== undefined && !isTaken && process.argv.includes('run'))
    setTimeout(() => keepCode(file, source, script.createCachedData()), KEPT_AFTER_MS).unref()
}

/** V8 would take the code of another program of the same length, and what a disk has damaged. */
function readCode(file, source) {
  try {
    const kept = readFileSync(file)
    const code = kept.subarray(CHECKSUMS_BYTES)
    return checksums(source, code).equals(kept.subarray(0, CHECKSUMS_BYTES)) ? code : undefined
  } catch {
    return undefined
  }
}

function keepCode(file, source, code) {
  const partial = `${file}.${process.pid}`
  try {
    writeFileSync(partial, Buffer.concat([checksums(source, code), code]), { mode: 0o600 })
    renameSync(partial, file)
    debug('the compiled code is kept in %s', file)
  } catch (error) {
    remove(partial)
    debug('the compiled code cannot be kept: %s', error)
  }
}

/** On a full disk each start would leave one more. */
function remove(partial) {
  try {
    rmSync(partial, { force: true })
  } catch {
    // Where it cannot be removed it could not be written.
  }
}

function checksums(source, code) {
  const both = Buffer.alloc(CHECKSUMS_BYTES)
  both.writeUInt32LE(crc32(source), 0)
  both.writeUInt32LE(crc32(code), CHECKSUMS_BYTES / 2)
  return both
}

// Not imported: an import makes Node read every export, and load the modules behind lazy ones.
const { readFileSync, renameSync, rmSync, writeFileSync } = process.getBuiltinModule('node:fs')
const { createRequire } = process.getBuiltinModule('node:module')
const { join } = process.getBuiltinModule('node:path')
const { fileURLToPath } = process.getBuiltinModule('node:url')
const { debuglog } = process.getBuiltinModule('node:util')
const { constants, Script } = process.getBuiltinModule('node:vm')
const { crc32 } = process.getBuiltinModule('node:zlib')

/** An agent has started by then, and issued its first certificates. */
const KEPT_AFTER_MS = 3_000
/** Checksums of the program, and of its compiled code. */
const CHECKSUMS_BYTES = 8

const debug = debuglog('livery')

/**
 * Runs the program that bundle.mjs has made at `url`, with the code in `folder` that V8 compiled for an earlier `livery run`, and stores
 * the code that this one compiles. Node's own cache takes a module before it has run, without the functions that are compiled at their
 * first call: that costs 80 ms of CPU per start.
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

/** Checks the code: V8 would take damaged bytes, and the code of another program with the same length. */
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

/** Leftovers would accumulate with each start on a full disk. */
function remove(partial) {
  try {
    rmSync(partial, { force: true })
  } catch {
    // A file that cannot be removed could not be written either.
  }
}

function checksums(source, code) {
  const both = Buffer.alloc(CHECKSUMS_BYTES)
  both.writeUInt32LE(crc32(source), 0)
  both.writeUInt32LE(crc32(code), CHECKSUMS_BYTES / 2)
  return both
}

// Runs one subject in its own process, so that a crash, a hang or a leak can only come from it:
// `fuzz-subject.mjs FILE SEED MILLISECONDS [TRACE]`, where TRACE is a file that always holds the input at work. A subject exports
//   inputs     a fast-check arbitrary of values that JSON holds, and Uint8Arrays
//   run        takes one of them; it throws, rejects, or leaves a rejection unhandled if the program does wrong
//   maxCpuMs   limit for one input on the main thread, milliseconds of CPU; default 50
//   examples   inputs to begin with (optional)
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import fc from 'fast-check'

const RUNS_PER_BATCH = 400
/** Memory that may be added after the first tenth of the run: only caches that fill. */
const MAX_GROWTH_MB = 24

const [file, seedText, shareText, trace] = process.argv.slice(2)
const name = basename(file, '.fuzz.ts')
const corpus = join(dirname(file), 'corpus', name)
const { inputs, run, maxCpuMs = 50, examples = [] } = await import(pathToFileURL(file).href)

let stray
process.on('unhandledRejection', error => {
  stray = { error }
})
process.on('uncaughtException', error => {
  stray = { error }
})

let count = 0
let slowest = 0
const replayed = await replay()
await fuzz(Number(seedText), Number(shareText))
process.exit()

async function replay() {
  const files = existsSync(corpus) ? readdirSync(corpus).filter(entry => entry.endsWith('.json')) : []
  for (const entry of files.sort()) {
    process.send?.({ kept: join(corpus, entry) })
    await checked(decode(readFileSync(join(corpus, entry), 'utf8'))).catch(error =>
      fail(`${join(corpus, entry)} fails again`, error),
    )
  }
  return files.length
}

async function fuzz(seed, shareMs) {
  const start = Date.now()
  let baseline
  for (let batch = 0; Date.now() - start < shareMs; batch++) {
    process.send?.({ seed: seed + batch })
    const result = await fc.check(fc.asyncProperty(inputs, checked), {
      seed: seed + batch,
      numRuns: RUNS_PER_BATCH,
      // This waits for the input at work, which `interruptAfterTimeLimit` leaves running beside the next batch.
      skipAllAfterTimeLimit: Math.max(1, start + shareMs - Date.now()) + (batch === 0 ? 5_000 : 0),
      maxSkipsPerRun: 0,
      examples: batch === 0 ? examples.map(example => [example]) : [],
    })
    if (result.failed && result.counterexample) refuse(result, seed + batch)
    if (Date.now() - start > shareMs / 10) baseline ??= usedMb()
  }
  const growth = baseline === undefined ? 0 : usedMb() - baseline
  const figures = `${count} inputs, slowest ${slowest.toFixed(1)} ms, memory ${growth >= 0 ? '+' : ''}${growth.toFixed(1)} MB`
  console.log(`${name}: ${replayed} replayed, ${figures}`)
  if (growth > MAX_GROWTH_MB) fail(`keeps memory: ${growth.toFixed(1)} MB more after ${count} inputs`, undefined)
}

/** Another program on the machine, or the compiler, can delay an input once: only an input that is always slow counts. */
async function checked(input) {
  let cpu = await cpuOf(input)
  for (let again = 0; cpu > maxCpuMs && again < 3; again++) cpu = Math.min(cpu, await cpuOf(input))
  slowest = Math.max(slowest, cpu)
  if (cpu > maxCpuMs) throw new Error(`took ${cpu.toFixed(0)} ms of CPU, more than ${maxCpuMs}, each time`)
}

async function cpuOf(input) {
  count++
  if (trace) writeFileSync(trace, encode(input))
  const start = process.threadCpuUsage()
  const running = run(structuredClone(input))
  if (running) await running
  const { user, system } = process.threadCpuUsage(start)
  // Node reports an unhandled rejection when the loop turns.
  for (let turn = 0; turn < 3; turn++) await new Promise(setImmediate)
  const found = stray
  stray = undefined
  if (found) throw new Error(`an unhandled rejection: ${found.error?.stack ?? found.error}`)
  return (user + system) / 1_000
}

function usedMb() {
  globalThis.gc()
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return (heapUsed + external) / 1_048_576
}

function refuse({ counterexample: [input], errorInstance }, seed) {
  const text = encode(input)
  const path = join(corpus, `${createHash('sha256').update(text).digest('hex').slice(0, 16)}.json`)
  console.error(`${name}: seed ${seed} fails with ${text.slice(0, 4_000)}`)
  if (!process.env.CI) {
    mkdirSync(corpus, { recursive: true })
    writeFileSync(path, text)
    console.error(`${name}: kept as ${path}; replay with \`npm run fuzz -- --replay --only ${name}\``)
  }
  fail('fails', errorInstance)
}

function fail(what, error) {
  console.error(`${name}: ${what}${error === undefined ? '' : `: ${error?.stack ?? error}`}`)
  process.exit(1)
}

function encode(input) {
  // `value` is already the result of Buffer.toJSON.
  function asText(key, value) {
    return this[key] instanceof Uint8Array ? { $bytes: Buffer.from(this[key]).toString('base64') } : value
  }
  return `${JSON.stringify(input, asText)}\n`
}

function decode(text) {
  return JSON.parse(text, (_, value) =>
    value?.$bytes === undefined ? value : Uint8Array.from(Buffer.from(value.$bytes, 'base64')),
  )
}

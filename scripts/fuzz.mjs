// Fuzzes every subject for its share of the time: `npm run fuzz -- --minutes 10 [--only NAME] [--seed N]`. A subject is a file
// packages/*/test/fuzz/NAME.fuzz.ts (its contract: scripts/fuzz-subject.mjs); inputs that once failed are kept beside it in corpus/NAME and
// replayed first; `--replay` only replays. Exit 1 if anything failed; the printed seed makes the same inputs again.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
/** A subject that is silent for this long after its time hangs in one input. */
const HANG_MS = 30_000
/** Node's exit code if an await is pending and nothing can end it. */
const UNSETTLED = 13

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    only: { type: 'string' },
    seed: { type: 'string', default: `${Math.trunc(Math.random() * 2 ** 31)}` },
    replay: { type: 'boolean', default: false },
    subjects: { type: 'string', default: 'packages/*/test/fuzz/*.fuzz.ts' },
  },
})
const files = globSync(options.subjects, { cwd: root })
  .filter(file => !options.only || nameOf(file) === options.only)
  .filter(file => !options.replay || existsSync(corpusOf(file)))
  .sort()
if (files.length === 0) {
  console.error(`No subject is named ${options.only ?? options.subjects}: run without --only to see all subjects`)
  process.exit(2)
}
const shareMs = options.replay ? 0 : (Number(options.minutes) * 60_000) / files.length
console.log(`fuzz: ${files.length} subjects, ${(shareMs / 1_000).toFixed(1)} s each, seed ${options.seed}`)

let failed = 0
for (const file of files) if (!(await fuzz(file))) failed++
console.log(`${files.length - failed} passed, ${failed} failed`)
process.exitCode = failed > 0 ? 1 : 0

function nameOf(file) {
  return basename(file, '.fuzz.ts')
}

function corpusOf(file) {
  return join(root, dirname(file), 'corpus', nameOf(file))
}

async function fuzz(file) {
  const { code, end, last } = await runSubject(file, options.seed, shareMs)
  if (!end) return code === 0
  console.error(`${nameOf(file)}: ${end} in ${JSON.stringify(last)}`)
  if (last?.seed !== undefined) await traced(file, last.seed)
  return false
}

/** Repeats the batch in which one input ended the process or hung, and keeps that input. */
async function traced(file, seed) {
  const trace = join(root, '.cache', `fuzz-${process.pid}.json`)
  mkdirSync(join(root, '.cache'), { recursive: true })
  const { end } = await runSubject(file, seed, 1, trace)
  if (!existsSync(trace)) return
  const text = readFileSync(trace, 'utf8')
  rmSync(trace)
  if (!end) {
    console.error(`${nameOf(file)}: the same inputs pass in a new process, so that earlier ones have a part in it`)
    return
  }
  console.error(`${nameOf(file)}: the input is ${text.slice(0, 4_000)}`)
  if (process.env.CI) return
  mkdirSync(corpusOf(file), { recursive: true })
  writeFileSync(join(corpusOf(file), `${createHash('sha256').update(text).digest('hex').slice(0, 16)}.json`), text)
}

/** `last`: the input at which the subject ended; `end`: how it ended, unless it finished. */
async function runSubject(file, seed, milliseconds, ...trace) {
  const flags = ['--conditions=@livery/source', '--expose-gc']
  const args = [join(root, 'scripts', 'fuzz-subject.mjs'), join(root, file), `${seed}`, `${milliseconds}`, ...trace]
  const child = spawn(process.execPath, [...flags, ...args], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const startWatch = () => setTimeout(() => child.kill('SIGKILL'), HANG_MS + milliseconds)
  let last
  let watch = startWatch()
  child.on('message', message => {
    last = message
    clearTimeout(watch)
    watch = startWatch()
  })
  const [code, signal] = await new Promise(resolve => child.on('exit', (...end) => resolve(end)))
  clearTimeout(watch)
  return { code, end: endOf(code, signal), last }
}

function endOf(code, signal) {
  if (signal === 'SIGKILL') return 'hangs'
  if (signal) return `ended by ${signal}`
  return code === UNSETTLED ? 'waits for a promise that nothing can settle' : undefined
}

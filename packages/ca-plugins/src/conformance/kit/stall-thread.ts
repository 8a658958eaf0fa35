/** The thread of `stall-watch.ts`: waits for the next sign of life of the event loop, and ends the process if none comes. */
import { writeSync } from 'node:fs'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { BEAT, IS_ON, type StallWatchData, type WatchedCase } from './stall-watch.ts'

const STDERR = 2
/** A process that was stopped for a while loses one slice, not its whole patience. */
const SLICES = 4

const { state }: StallWatchData = workerData
const UNKNOWN: WatchedCase = { name: 'a case', patienceMs: 10_000 }
let current = UNKNOWN
let silentSlices = 0

while (true) {
  const beat = Atomics.load(state, BEAT)
  const isOn = Atomics.load(state, IS_ON) === 1
  current = latestCase() ?? current
  const waited = Atomics.wait(state, BEAT, beat, isOn ? current.patienceMs / SLICES : Number.POSITIVE_INFINITY)
  silentSlices = waited === 'timed-out' ? silentSlices + 1 : 0
  if (silentSlices >= SLICES) end(current)
}

function latestCase(): WatchedCase | undefined {
  const next = parentPort ? receiveMessageOnPort(parentPort) : undefined
  return next && (latestCase() ?? next.message)
}

function end({ name, patienceMs }: WatchedCase): never {
  const seconds = patienceMs / 1000
  writeSync(
    STDERR,
    `The conformance kit ends this process: "${name}" has blocked the event loop for ${seconds} s. ` +
      'No timer, no signal and no other call is served meanwhile. Look for a loop without await, or a call such as ' +
      'execFileSync, and use one that gives a promise.\n',
  )
  process.kill(process.pid, 'SIGKILL')
  throw new Error('killed')
}

/** The thread of one replica: receives its month as `workerData`, and posts its progress as numbers and its row at the end. */
import { parentPort, workerData } from 'node:worker_threads'
import { monthOfReplica } from './month.ts'

/** The time between two reports of progress, milliseconds of real time. */
const PROGRESS_EVERY_MS = 2_000
let toldAt = performance.now()
const row = await monthOfReplica(workerData, simulatedMs => {
  if (performance.now() - toldAt < PROGRESS_EVERY_MS) return
  toldAt = performance.now()
  parentPort?.postMessage(simulatedMs)
})
parentPort?.postMessage(row)

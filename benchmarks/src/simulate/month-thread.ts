/** The thread of one replica: its month comes as `workerData`, how far it is as numbers, and its row in the end. */
import { parentPort, workerData } from 'node:worker_threads'
import { monthOfReplica } from './month.ts'

/** Between two words of progress, milliseconds of real time. */
const PROGRESS_EVERY_MS = 2_000
let toldAt = performance.now()
const row = await monthOfReplica(workerData, simulatedMs => {
  if (performance.now() - toldAt < PROGRESS_EVERY_MS) return
  toldAt = performance.now()
  parentPort?.postMessage(simulatedMs)
})
parentPort?.postMessage(row)

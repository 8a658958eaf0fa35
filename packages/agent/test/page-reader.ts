/** A page in a thread of its own, so that its work is not measured: reads the events until it has every row, and the whole state. */
import { parentPort, workerData } from 'node:worker_threads'
import { ask } from './admin-socket.ts'
import { PageEvents } from './page-events.ts'

const { port, identities }: { readonly port: number; readonly identities: number } = workerData
const address = { host: '127.0.0.1', port }
using page = await PageEvents.open(address)
const [state] = await Promise.all([
  ask({ address }, '/page/state'),
  page.until(({ rows, sections }) => rows.size === identities && sections.overview !== undefined),
])
parentPort?.postMessage(JSON.parse(state.body).identities.length)

/** A client leaves nothing open in this process. */
import { type BenchOptions, withBench } from '../kit/bench.ts'
import type { Bench } from '../kit/conformance-case.ts'
import { issue } from '../kit/expectations.ts'
import { close, expectNone } from '../kit/in-time.ts'
import { describe, noteOpened, type Opened, openFiles } from '../kit/opened-resources.ts'

/** Resources that come and go with every turn of the event loop. */
const TRANSIENT = new Set([
  'Immediate',
  'FSReqCallback',
  'FSReqPromise',
  'GetAddrInfoReqWrap',
  'CloseReq',
  'ShutdownWrap',
])

/** A leak grows with each client. Handles that a library opens once for all of them do not. */
const CLIENTS = 3
/** Programs take a moment to end, and sockets some turns of the event loop. */
const LONGEST_END_MS = 5_000

/** The kinds of resources that keep the process alive, and how many there are of each. */
export function openResources(): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const kind of process.getActiveResourcesInfo())
    if (!TRANSIENT.has(kind)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
  return counts
}

/** The kinds that are open now and were not `before`. */
export function leftOpen(before: ReadonlyMap<string, number>): readonly string[] {
  return [...openResources()].filter(([kind, count]) => count > (before.get(kind) ?? 0)).map(([kind]) => kind)
}

/** Each client is used, and closed with its server, before what is open is counted. */
export async function leaveNothingOpen(options: BenchOptions): Promise<void> {
  // The first run does not count: what a library opens for good at first use is not a leak.
  await noteOpened(opened => withBench(options, opened, async on => void (await issue(on))))
  const before = openResources()
  const filesBefore = openFiles()
  await noteOpened(async opened => {
    for (let client = 1; client < CLIENTS; client++) await withBench(options, opened, useClient)
    await withBench(options, opened, useAndClose)
    const left = () => [
      ...leftOpen(before).map(kind => `${kind}, which keeps the process alive`),
      ...leaks(opened.open()),
      ...leakedFiles(filesBefore),
    ]
    await expectNone(left, Math.min(options.patienceMs, LONGEST_END_MS), `open after ${CLIENTS} clients were closed`)
  })
}

async function useClient(on: Bench): Promise<void> {
  await issue(on)
  await issue(on)
  on.client.subscribe?.(() => {})
}

/** Looks at connections while the server runs: its end would end them too. */
async function useAndClose(on: Bench): Promise<void> {
  await useClient(on)
  // The group `close` judges whether closing works.
  await close(on.client, on.patienceMs).catch(() => {})
  const left = () => on.opened.connections().map(describe)
  // `fetch` ends the connections that it keeps, some seconds later.
  await expectNone(left, on.patienceMs, 'still open after the client was closed (its server still runs)')
}

/** Resources that one place opened as often as there were clients. */
function leaks(opened: readonly Opened[]): readonly string[] {
  const groups = Map.groupBy(opened, ({ kind, openedAt }) => `${kind} ${openedAt}`)
  return [...groups.values()]
    .filter(group => group.length >= CLIENTS)
    .map(group => `${group.length} of: ${group.slice(0, 1).map(describe).join()}`)
}

function leakedFiles(before: ReadonlySet<string>): readonly string[] {
  const left = [...openFiles()].filter(file => !before.has(file))
  return left.length >= CLIENTS ? left : []
}

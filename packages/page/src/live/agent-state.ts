/** The agent's state in the page: the state at the start of the link, updated by each change. */
import { batch, computed, signal } from '@preact/signals'
import type { PageStreams } from '../../../agent/src/observe/stream-facts.ts'
import type { PageChange, PageHello, PageIdentity, PageOverview, PageRoots } from '../../../agent/src/page/state.ts'

export const agent = signal<PageHello | undefined>(undefined)
export const identities = signal<ReadonlyMap<string, PageIdentity>>(new Map())
export const overview = signal<PageOverview | undefined>(undefined)
export const streams = signal<PageStreams | undefined>(undefined)
export const roots = signal<PageRoots | undefined>(undefined)

/** How far the agent's clock is ahead of the browser's, in milliseconds. */
export const clockAheadMs = signal(0)
const browserNow = signal(Date.now())
/** The agent's time, in steps of a second. */
export const now = computed(() => browserNow.value + clockAheadMs.value)
setInterval(() => {
  browserNow.value = Date.now()
}, 1_000)

/** The rows of a new link, until all have come: meanwhile the page shows the previous link's rows. */
let arriving: Map<string, PageIdentity> | undefined

/** Starts a new link: everything follows. */
export function begin(hello: PageHello): void {
  arriving = new Map()
  agent.value = hello
  setClock(hello.now)
}

/** Returns whether the state is complete. */
export function apply(change: PageChange): boolean {
  batch(() => {
    applyRows(change)
    if (change.overview) overview.value = change.overview
    if (change.streams) streams.value = change.streams
    if (change.roots) roots.value = change.roots
    setClock(change.now)
  })
  return arriving === undefined
}

function applyRows({ identities: changed = [], gone = [], more = 0 }: PageChange): void {
  if (arriving === undefined && changed.length + gone.length === 0) return
  const rows = arriving ?? new Map(identities.value)
  for (const identity of changed) rows.set(identity.name, identity)
  for (const name of gone) rows.delete(name)
  if (arriving && more > 0) return
  arriving = undefined
  identities.value = rows
}

/** Latency, and the quarter of a second for which changes are gathered, do not count as a clock difference. */
const CLOCK_TOLERANCE_MS = 2_000

function setClock(agentNow: number): void {
  const ahead = agentNow - Date.now()
  if (Math.abs(ahead - clockAheadMs.value) > CLOCK_TOLERANCE_MS) clockAheadMs.value = ahead
  browserNow.value = Date.now()
}

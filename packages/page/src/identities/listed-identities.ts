/** The identities of the list: searched, filtered and sorted. */
import { computed, signal } from '@preact/signals'
import type { PageIdentity, PageIdentityState } from '../../../agent/src/page/state.ts'
import { identities } from '../live/agent-state.ts'
import { search, wantedState } from '../navigation/view.ts'

export type SortColumn = 'state' | 'name' | 'end'

export const sorting = signal<{ readonly column: SortColumn; readonly isReversed: boolean }>({
  column: 'state',
  isReversed: false,
})

export function sortBy(column: SortColumn): void {
  const { value } = sorting
  sorting.value = { column, isReversed: value.column === column && !value.isReversed }
}

/** Whether the user points at the rows or is among them: they keep their order meanwhile. */
export const isHeld = signal(false)

/** Selects every identity in trouble, whatever its state. */
export const TROUBLE = 'trouble'

const names = computed(() => {
  const words = search.value.toLowerCase().split(/\s+/)
  const state = wantedState.value
  const found: PageIdentity[] = []
  for (const identity of identities.value.values())
    if (isWanted(identity, state) && words.every(word => identity.name.toLowerCase().includes(word)))
      found.push(identity)
  return found
})

function isWanted(identity: PageIdentity, state: string): boolean {
  if (state === TROUBLE) return isInTrouble(identity)
  return state === '' || identity.state === state
}

export function isInTrouble({ problem }: PageIdentity): boolean {
  return problem !== undefined
}

/** The query of the last sort: another query sorts the rows again at once. */
let question = ''
let order: ReadonlyMap<string, number> = new Map()

export const listed = computed((): readonly PageIdentity[] => {
  const found = names.value
  const asked = JSON.stringify([search.value, wantedState.value, sorting.value])
  if (isHeld.value && asked === question) return sortHeld(found)
  question = asked
  const sorted = found.toSorted(comparison())
  order = new Map(sorted.map(({ name }, index) => [name, index]))
  return sorted
})

/** Keeps known rows in their order, and appends new ones. */
function sortHeld(found: readonly PageIdentity[]): readonly PageIdentity[] {
  const place = ({ name }: PageIdentity): number => order.get(name) ?? Number.MAX_SAFE_INTEGER
  return found.toSorted((a, b) => place(a) - place(b))
}

function comparison(): (a: PageIdentity, b: PageIdentity) => number {
  const { column, isReversed } = sorting.value
  const compare = COMPARISONS[column]
  return isReversed ? (a, b) => compare(b, a) : compare
}

const COMPARISONS: Readonly<Record<SortColumn, (a: PageIdentity, b: PageIdentity) => number>> = {
  state: (a, b) => urgencyOf(a) - urgencyOf(b) || byEnd(a, b),
  name: byName,
  end: byEnd,
}

function byName(a: PageIdentity, b: PageIdentity): number {
  return a.name < b.name ? -1 : 1
}

/** Sorts rows without a certificate first. */
function byEnd(a: PageIdentity, b: PageIdentity): number {
  return (a.notAfter ?? 0) - (b.notAfter ?? 0) || byName(a, b)
}

/** A renewal in progress is not urgent: its row keeps its place. */
const URGENCY: Readonly<Record<PageIdentityState, number>> = {
  Expired: 0,
  Failing: 1,
  Initializing: 2,
  Available: 3,
  Renewing: 3,
  Idle: 4,
}

function urgencyOf(identity: PageIdentity): number {
  if (identity.state !== 'Expired' && identity.failure) return 1
  return identity.warning === undefined ? URGENCY[identity.state] : Math.min(1.5, URGENCY[identity.state])
}

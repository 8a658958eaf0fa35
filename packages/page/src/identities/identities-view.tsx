/** The list of identities, with search and filters. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import type { PageIdentity, PageIdentityState } from '../../../agent/src/page/state.ts'
import { agent, identities, now, overview } from '../live/agent-state.ts'
import { Panel } from '../navigation/panel.tsx'
import { opened, search, wantedState } from '../navigation/view.ts'
import { Icon } from '../parts/icon.tsx'
import { formatCount, formatDistance, splitName, visible } from '../parts/text.ts'
import { type Column, VirtualGrid } from '../parts/virtual-grid.tsx'
import { lifeOf } from './life.ts'
import { LifeBar } from './life-bar.tsx'
import { isHeld, isInTrouble, listed, type SortColumn, sortBy, sorting, TROUBLE } from './listed-identities.ts'
import { StateLabel } from './state-label.tsx'

export function IdentitiesView() {
  return (
    <Panel name="identities" isGrid>
      <div class="toolbar">
        <SearchBox />
        <StateFilter />
      </div>
      <VirtualGrid
        label="Identities"
        columns={columns()}
        rows={listed.value}
        keyOf={({ name }) => name}
        classOf={rowClass}
        opened={opened.value}
        onOpen={({ name }) => {
          opened.value = name
        }}
        onSort={column => sortBy(SORTABLE.find(each => each === column) ?? 'state')}
        onAttention={isThere => {
          isHeld.value = isThere
        }}
        empty={identities.value.size === 0 ? 'No identity is held.' : 'No identity matches.'}
      />
    </Panel>
  )
}

function SearchBox() {
  return (
    <label class="search">
      <Icon name="search" />
      <span class="hidden">Search identities</span>
      <input
        id="search"
        type="search"
        placeholder="Search (press /)"
        autocomplete="off"
        spellcheck={false}
        value={search.value}
        onInput={event => {
          search.value = event.currentTarget.value
        }}
      />
    </label>
  )
}

const STATES: readonly PageIdentityState[] = ['Expired', 'Failing', 'Initializing', 'Renewing', 'Available', 'Idle']

function StateFilter() {
  const counts = overview.value?.counts
  const troubled = [...identities.value.values()].filter(isInTrouble).length
  return (
    <fieldset class="filters">
      <legend class="hidden">Show identities by state</legend>
      <FilterButton state="" title="All" count={identities.value.size} />
      <FilterButton state={TROUBLE} title="In trouble" count={troubled} />
      {STATES.map(state => (
        <FilterButton key={state} state={state} title={state} count={counts?.[state] ?? 0} />
      ))}
    </fieldset>
  )
}

interface FilterProps {
  readonly state: string
  readonly title: string
  readonly count: number
}

function FilterButton({ state, title, count }: FilterProps) {
  const isPressed = wantedState.value === state
  const isBad = count > 0 && (state === TROUBLE || state === 'Expired' || state === 'Failing')
  return (
    <button
      type="button"
      class={`filter ${isBad ? 'filter-bad' : ''} ${count === 0 ? 'filter-none' : ''}`}
      aria-pressed={isPressed}
      onClick={() => {
        wantedState.value = isPressed ? '' : state
      }}
    >
      {title} <span class="count">{formatCount(count)}</span>
    </button>
  )
}

const SORTABLE: readonly SortColumn[] = ['state', 'name', 'end']

function columns(): readonly Column<PageIdentity>[] {
  const sortOf = (column: SortColumn) => {
    if (sorting.value.column !== column) return 'none'
    return sorting.value.isReversed ? 'descending' : 'ascending'
  }
  return [
    { id: 'state', title: 'State', sort: sortOf('state'), cell: identity => <StateLabel identity={identity} /> },
    { id: 'name', title: 'Identity', sort: sortOf('name'), cell: identity => <NameCell identity={identity} /> },
    { id: 'life', title: 'Life', cell: identity => <LifeBar identity={identity} /> },
    { id: 'end', title: 'Ends in', sort: sortOf('end'), cell: identity => <EndCell identity={identity} /> },
    { id: 'next', title: 'Renewal', cell: identity => <NextCell identity={identity} /> },
  ]
}

function NameCell({ identity: { name, failure, warning } }: { readonly identity: PageIdentity }) {
  const [shared, own] = splitName(name)
  // The trust domain of the agent is on top of the page.
  const isForeign = shared !== `spiffe://${agent.value?.trustDomain}`
  return (
    <>
      <span class="name" title={visible(name)}>
        {shared === '' ? null : <span class={isForeign ? 'name-foreign' : 'name-shared'}>{visible(shared)}</span>}
        <span class="name-own">{visible(own)}</span>
      </span>
      {failure ? <Reason code={failure.code} text={failure.text} /> : null}
      {!failure && warning !== undefined ? <Reason code="preflight-failed" text={warning} /> : null}
    </>
  )
}

function Reason({ code, text }: { readonly code: string; readonly text: string }) {
  return (
    <span class="reason" title={visible(text)}>
      <b>{visible(code)}</b> {visible(text)}
    </span>
  )
}

function EndCell({ identity }: { readonly identity: PageIdentity }) {
  const life = lifeOf(identity, now.value)
  if (!life) return <span class="muted">–</span>
  return <span>{life.leftMs === 0 ? 'ended' : formatAge(life.leftMs)}</span>
}

function NextCell({ identity: { renewAt, failure, state } }: { readonly identity: PageIdentity }) {
  if (renewAt === undefined) return <span class="muted">{state === 'Idle' ? '–' : 'asking the CA'}</span>
  const time = renewAt <= now.value ? 'due now' : formatDistance(renewAt, now.value)
  return <span class="muted">{failure ? `next try ${time}` : time}</span>
}

function rowClass({ state, failure, notAfter, warning }: PageIdentity): string {
  if (state === 'Expired' || (failure && notAfter === undefined)) return 'row-critical'
  return failure || warning !== undefined ? 'row-warning' : ''
}

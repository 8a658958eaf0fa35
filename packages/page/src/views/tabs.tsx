/** The parts of the page; each tab summarises its part in a few words. */

import { formatAge } from '../../../agent/src/observe/format-age.ts'
import { identities, now, overview, roots, streams } from '../live/agent-state.ts'
import { opened, view } from '../navigation/view.ts'
import { VIEWS, type ViewName } from '../navigation/view-name.ts'
import { Icon, type IconName } from '../parts/icon.tsx'
import { formatCount } from '../parts/text.ts'
import { problems } from '../verdict/verdict.tsx'

export function Tabs() {
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
    if (step === 0) return
    const next = VIEWS[(VIEWS.indexOf(view.value) + step + VIEWS.length) % VIEWS.length] ?? 'identities'
    view.value = next
    document.querySelector<HTMLElement>(`#tab-${next}`)?.focus()
  }
  return (
    <div class="tabs" role="tablist" aria-label="Parts of the agent" onKeyDown={onKeyDown}>
      {VIEWS.map(name => (
        <Tab key={name} name={name} />
      ))}
    </div>
  )
}

const TITLES: Readonly<Record<ViewName, string>> = {
  identities: 'Identities',
  streams: 'Streams',
  sockets: 'Sockets',
  roots: 'Roots',
  ca: 'CA',
  process: 'Keys and process',
}

function Tab({ name }: { readonly name: ViewName }) {
  const isSelected = view.value === name
  const severity = problems.value.find(problem => problem.view === name)?.severity
  return (
    <button
      type="button"
      role="tab"
      class="tab"
      id={`tab-${name}`}
      aria-selected={isSelected}
      aria-controls={isSelected ? 'panel' : undefined}
      tabIndex={isSelected ? 0 : -1}
      onClick={() => {
        view.value = name
        opened.value = ''
      }}
    >
      <span class="tab-title">
        {severity ? <Icon name={severity satisfies IconName} /> : null}
        {TITLES[name]}
        {severity ? <span class="hidden"> ({severity})</span> : null}
      </span>
      <span class={`tab-note ${name === 'roots' && hasNoRoot() ? 'tab-note-warning' : ''}`}>{noteOf(name)}</span>
    </button>
  )
}

function noteOf(name: ViewName): string {
  const { value } = overview
  if (!value) return ' '
  switch (name) {
    case 'identities':
      return formatCount(identities.value.size)
    case 'streams':
      return formatCount(streams.value?.total ?? 0)
    case 'sockets': {
      const listening = value.sockets.filter(({ state }) => state === 'listening').length
      return `${listening} of ${value.sockets.length} listen`
    }
    case 'roots':
      return hasNoRoot() ? 'none yet' : rotationPhase()
    case 'ca':
      return caNote()
    case 'process':
      return value.keyGenerator
  }
}

function hasNoRoot(): boolean {
  return roots.value?.trustDomains.every(({ roots: held }) => held.length === 0) ?? false
}

function rotationPhase(): string {
  return roots.value?.trustDomains.find(({ phase }) => phase !== 'steady')?.phase ?? 'steady'
}

function caNote(): string {
  const { pause, inFlight, lastIssuedAt } = overview.value?.ca ?? {}
  if (pause) return PAUSES[pause.reason]
  if (inFlight !== undefined && inFlight > 0) return `${inFlight} in flight`
  return lastIssuedAt === undefined ? 'nothing issued yet' : `issued ${formatAge(now.value - lastIssuedAt)} ago`
}

const PAUSES = {
  'rate-limited': 'paused: rate limit',
  'ca-down': 'does not answer',
  'clock-jumped': 'paused: clock jumped',
} as const

/** The agent's name, whether the page is up to date, and the two settings: log level and theme. */
import { useSignal } from '@preact/signals'
import { formatAge } from '../../../agent/src/observe/format-age.ts'
import { setLogLevel } from '../live/actions.ts'
import { agent, now, overview } from '../live/agent-state.ts'
import { link } from '../live/connection.ts'
import { Icon } from '../parts/icon.tsx'
import { visible } from '../parts/text.ts'
import { THEMES, theme } from './theme.ts'

export function TopBar() {
  const { value } = agent
  return (
    <header class="top-bar">
      <span class="brand">Livery</span>
      {value ? (
        <span class="about">
          <b>{visible(value.trustDomain)}</b>
          <span class="muted about-more">
            {' '}
            version {value.version}, up for {formatAge(now.value - value.startedAt)}
          </span>
        </span>
      ) : null}
      <span class="space" />
      <LinkState />
      <Readiness />
      <LogLevel />
      <ThemeChoice />
    </header>
  )
}

function LinkState() {
  const { value } = link
  if (value.kind === 'live')
    return (
      <span class="link-state">
        <Icon name="good" />
        Live
      </span>
    )
  return <span class="link-state muted">{value.kind === 'lost' ? 'Not connected' : 'Connecting…'}</span>
}

function Readiness() {
  const { value } = overview
  if (!value) return null
  const { ready, strictReady } = value
  return (
    <span class="readiness" title={value.problems.map(({ what }) => visible(what)).join('\n')}>
      <Icon name={ready ? (strictReady ? 'good' : 'warning') : 'critical'} />
      {ready ? (strictReady ? 'Ready' : 'Ready, not strictly') : 'Not ready'}
    </span>
  )
}

/** The levels that everybody may set: they hide no warning. */
const LEVELS = ['trace', 'debug', 'info', 'warn']

function LogLevel() {
  const refusal = useSignal('')
  const level = overview.value?.logLevel
  if (level === undefined) return null
  const change = async (select: HTMLSelectElement): Promise<void> => {
    const { isDone, text } = await setLogLevel(select.value)
    refusal.value = isDone ? '' : text
    if (!isDone) select.value = level
  }
  return (
    <label class="setting" title={refusal.value}>
      Log
      <select value={level} onChange={event => void change(event.currentTarget)}>
        {(LEVELS.includes(level) ? LEVELS : [...LEVELS, level]).map(each => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
      {refusal.value === '' ? null : <span role="alert">{refusal.value}</span>}
    </label>
  )
}

function ThemeChoice() {
  return (
    <label class="setting">
      Theme
      <select
        value={theme.value}
        onChange={event => {
          theme.value = THEMES.find(each => each === event.currentTarget.value) ?? 'system'
        }}
      >
        {THEMES.map(each => (
          <option key={each} value={each}>
            {each}
          </option>
        ))}
      </select>
    </label>
  )
}

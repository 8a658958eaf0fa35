/** The view of the page, kept in the fragment of its address, which is never sent to the agent. */
import { computed, effect, signal } from '@preact/signals'
import { VIEWS, type ViewName } from './view-name.ts'

const start = new URLSearchParams(location.hash.slice(1))

export const view = signal<ViewName>(VIEWS.find(name => name === start.get('view')) ?? 'identities')
/** The text that names have to contain. */
export const search = signal(start.get('q') ?? '')
/** The state to filter by, or `trouble`: all that fail. */
export const wantedState = signal(start.get('state') ?? '')
/** The name in the drawer. */
export const opened = signal(start.get('name') ?? '')

const fragment = computed(() => {
  const all = {
    view: view.value === 'identities' ? '' : view.value,
    q: search.value,
    state: wantedState.value,
    name: opened.value,
  }
  return new URLSearchParams(Object.entries(all).filter(([, value]) => value !== '')).toString()
})

effect(() => {
  const address = fragment.value === '' ? location.pathname : `#${fragment.value}`
  history.replaceState(undefined, '', address)
})

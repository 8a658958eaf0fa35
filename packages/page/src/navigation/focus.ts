/** Keyboard shortcuts: `/` moves to the search, Esc back to the list. */
import { opened, search, view } from './view.ts'

/** Returns the focus to the list from which the details were opened. */
export function closeDrawer(): void {
  opened.value = ''
  focusGrid()
}

function focusGrid(): void {
  document.querySelector<HTMLElement>('.grid')?.focus()
}

/** The keys that work everywhere on the page. */
export function listenToKeys(): void {
  addEventListener('keydown', event => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
    if (document.querySelector('dialog[open]')) return
    if (event.key === 'Escape') onEscape()
    else if (event.key === '/' && !isTyping(event.target)) {
      event.preventDefault()
      focusSearch()
    } else if (event.key === 'ArrowDown' && isSearch(event.target)) {
      event.preventDefault()
      focusGrid()
    }
  })
}

/** Takes the focus at once if it is visible: the next keystrokes must not be lost. */
function focusSearch(): void {
  if (selectSearch()) return
  view.value = 'identities'
  requestAnimationFrame(selectSearch)
}

function selectSearch(): boolean {
  const field = document.querySelector<HTMLInputElement>('#search')
  field?.select()
  return field !== null
}

function onEscape(): void {
  if (opened.value !== '') closeDrawer()
  else if (isSearch(document.activeElement)) {
    search.value = ''
    focusGrid()
  }
}

function isSearch(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.id === 'search'
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement
  )
}

/** Dark or light: the system's choice, or one that the browser keeps. */
import { effect, signal } from '@preact/signals'

export const THEMES = ['system', 'light', 'dark'] as const
type Theme = (typeof THEMES)[number]

const KEY = 'livery-theme'

export const theme = signal<Theme>(THEMES.find(name => name === stored()) ?? 'system')

effect(() => {
  document.documentElement.dataset['theme'] = theme.value
  try {
    localStorage.setItem(KEY, theme.value)
  } catch {
    // The choice lasts for this page in a browser that stores nothing.
  }
})

function stored(): string | null {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

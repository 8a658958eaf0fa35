/** The marks of the page: each has a distinct shape, so that none depends on its colour. */

export type IconName =
  | 'good'
  | 'warning'
  | 'critical'
  | 'working'
  | 'starting'
  | 'idle'
  | 'copy'
  | 'close'
  | 'search'
  | 'done'

const PATHS: Readonly<Record<IconName, string>> = {
  good: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z',
  warning: 'M8 1.8 15 14H1Z',
  critical: 'M5 1.5h6L14.5 5v6L11 14.5H5L1.5 11V5Z',
  working: 'M8 2.5a5.5 5.5 0 1 0 5.5 5.5h-2A3.5 3.5 0 1 1 8 4.5Z',
  starting: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Zm0 2a3.5 3.5 0 1 1 0 7 3.5 3.5 0 0 1 0-7Z',
  idle: 'M3 7h10v2H3Z',
  copy: 'M5 1h8v10h-2v-8H5Zm-2 3h7v11H3Zm2 2v7h3V6Z',
  close: 'm3.4 2 4.6 4.6L12.600 2 14 3.400 9.400 8l4.600 4.600L12.600 14 8 9.400 3.400 14 2 12.600 6.600 8 2 3.400Z',
  search:
    'M7 1.500a5.500 5.500 0 1 0 3.200 9.900l3.400 3.400 1.300-1.300-3.400-3.400A5.500 5.500 0 0 0 7 1.500Zm0 2a3.500 3.500 0 1 1 0 7 3.500 3.500 0 0 1 0-7Z',
  done: 'm2 8.500 1.500-1.500L6.500 10 12.500 4 14 5.500l-7.500 7.500Z',
}

/** Decoration: the text beside it says the same. */
export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg class={`icon icon-${name}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
      {name === 'warning' || name === 'critical' ? (
        <path class="icon-mark" d="M7.2 5.500h1.600v4.500H7.200Zm0 5.500h1.600v1.500H7.200Z" />
      ) : null}
    </svg>
  )
}

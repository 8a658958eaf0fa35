/** The panel of a tab. A scrolling panel takes the focus, so that keys scroll it; a list within a panel handles keys itself. */
import type { ComponentChildren } from 'preact'
import type { ViewName } from './view-name.ts'

interface PanelProps {
  readonly name: ViewName
  /** Whether a list fills it. */
  readonly isGrid?: boolean
  readonly children: ComponentChildren
}

export function Panel({ name, isGrid = false, children }: PanelProps) {
  return (
    <div
      class={`panel ${isGrid ? 'panel-grid' : 'panel-scroll'}`}
      role="tabpanel"
      id="panel"
      aria-labelledby={`tab-${name}`}
      tabIndex={isGrid ? undefined : 0}
    >
      {children}
    </div>
  )
}

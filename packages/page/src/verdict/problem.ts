/** Something that is broken, or is going to break: what, why, and what to do. */

import type { ViewName } from '../navigation/view-name.ts'
import type { RunbookPage } from '../parts/remedies.ts'

export interface Problem {
  /** `critical`: something is broken, or breaks soon. */
  readonly severity: 'critical' | 'warning'
  readonly what: string
  readonly why: string
  readonly remedy: string
  /** To run on the node. */
  readonly commands: readonly string[]
  readonly runbook: RunbookPage
  /** Where the page shows more of it. */
  readonly view: ViewName
  /** The identity that it is about, where it is one. */
  readonly name?: string
}

/** The state of the agent from which the page tells what is wrong with it. */
import type { PageIdentity, PageOverview, PageRoots, PageStreams } from '../../../agent/src/page/state.ts'

export interface Facts {
  readonly identities: ReadonlyMap<string, PageIdentity>
  readonly overview: PageOverview
  readonly streams: PageStreams | undefined
  readonly roots: PageRoots | undefined
  /** Since when the store has changes that are not on disk; `undefined` while all are. */
  readonly storeBehindSince: number | undefined
  /** The agent's clock. */
  readonly now: number
  /** How far that is ahead of the browser's, in milliseconds. */
  readonly clockAheadMs: number
}

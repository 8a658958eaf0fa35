/** The sections of the page as JSON: overview, streams, roots. */
import type { IdentityEntry } from '@livery/core'
import type { AdminSource } from '../admin/admin-source.ts'
import { composeStreams, rejectionsOf } from '../admin/stream-rows.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { composeOverview } from './overview.ts'
import { composeRoots } from './root-rows.ts'
import type { PageSections } from './state.ts'

export const SECTIONS = ['overview', 'streams', 'roots'] as const satisfies (keyof PageSections)[]

export type SectionTexts = Readonly<Record<(typeof SECTIONS)[number], string>>

/** Calls `onEntry` with each identity, in its state at that moment. */
export async function composeSections(
  source: AdminSource,
  turns: LoopTurns,
  onEntry: (entry: IdentityEntry) => void,
): Promise<SectionTexts> {
  const streams = await composeStreams(source, turns)
  const overview = JSON.stringify(await composeOverview(source, rejectionsOf(streams), turns, onEntry))
  await turns.next()
  return { overview, streams: JSON.stringify(streams), roots: JSON.stringify(composeRoots(source)) }
}

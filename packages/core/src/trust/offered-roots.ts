/** The roots that came with an answer, read and not trusted yet. */

import type { IssuedCertificate } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { ReadRoots, RootReader } from './root-reader.ts'

/** None is trusted before the answer is accepted. */
export interface OfferedRoots extends Pick<ReadRoots, 'roots' | 'rejected' | 'isWhole'> {
  readonly identity: SpiffeId
  readonly isOwn: boolean
}

type Answer = Pick<IssuedCertificate, 'roots' | 'rootsFor'>

/** As {@link readOffered}, but synchronous, if they equal the roots of the previous answer. */
export function knownOffered(
  reader: RootReader,
  identity: SpiffeId,
  { roots = [], rootsFor }: Answer,
  now: number,
): OfferedRoots | undefined {
  const read = reader.sameAsLast(roots, now)
  return read && { ...read, identity, isOwn: rootsFor === 'identity' }
}

/** Reads the roots that came with an answer for `identity`. */
export async function readOffered(
  reader: RootReader,
  identity: SpiffeId,
  { roots = [], rootsFor }: Answer,
  now: number,
): Promise<OfferedRoots> {
  return { ...(await reader.read(roots, now)), identity, isOwn: rootsFor === 'identity' }
}

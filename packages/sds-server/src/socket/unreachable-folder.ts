/** Finds the folder that keeps the user or group of a socket from it: connecting needs search permission on every folder of its path. */
import type { Stats } from 'node:fs'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

interface Recipient {
  readonly owner?: number | undefined
  readonly group?: number | undefined
}

interface ClosedFolder {
  readonly reason: string
  readonly remedy: string
}

/** The first such folder from the socket up, and what to do about it, a sentence each without a period; `undefined` if all are open. */
export async function closedFolder(path: string, recipient: Recipient): Promise<ClosedFolder | undefined> {
  const { owner, group } = recipient
  if ((owner ?? 0) === 0 && group === undefined) return undefined
  const folder = dirname(resolve(path))
  const stats = await stat(folder)
  if (!isOpen(stats, recipient)) {
    const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
    const who = owner ? `uid ${owner}` : `group ${group}`
    // The user's further groups are not known here.
    const unless = owner && (stats.mode & 0o010) !== 0 ? ` unless it is in group ${stats.gid}` : ''
    const place = `${folder} (mode ${mode}, owner ${stats.uid}:${stats.gid})`
    return {
      reason: `${who} cannot pass ${place}${unless}`,
      remedy: `Run "chmod o+x ${folder}", or use another folder`,
    }
  }
  return folder === dirname(folder) ? undefined : await closedFolder(folder, recipient)
}

function isOpen({ mode, uid, gid }: Stats, { owner, group }: Recipient): boolean {
  return (mode & 0o001) !== 0 || (gid === group && (mode & 0o010) !== 0) || (uid === owner && (mode & 0o100) !== 0)
}

/** The note on a ticket: which request it is, and since when it waits. */

interface PendingNote {
  readonly name: string
  readonly uid: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

export function formatNote({ name, uid, since }: PendingNote): string {
  return JSON.stringify({ name, uid, since })
}

/** `undefined` for any other text, such as another plugin's note. */
export function parseNote(text: string | undefined): PendingNote | undefined {
  if (text === undefined) return undefined
  try {
    const { name, uid, since } = Object(JSON.parse(text))
    if (typeof name === 'string' && typeof uid === 'string' && Number.isFinite(since)) return { name, uid, since }
  } catch {
    // Not JSON.
  }
  return undefined
}

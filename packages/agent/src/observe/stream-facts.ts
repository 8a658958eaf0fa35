/** A stream as it is listed: which it is, whose, and how its client answers. */

export interface PageStreams {
  readonly total: number
  /** At most 500: those that rejected something first, then those that are behind or have not answered. */
  readonly shown: readonly PageStream[]
}

/** Which stream it is, and whose; `/streams` has the same. */
export interface StreamFacts {
  /** Counted from 1 in this process. */
  readonly id: number
  readonly method: string
  /** The path of its socket. */
  readonly socket: string
  /** The caller, where it is known. */
  readonly pid?: number
  readonly uid?: number
  /** Such as `pod 1234`, on a socket that identifies its callers. */
  readonly subject?: string
  /** Its namespace and name, where the subject is a pod that is known. */
  readonly pod?: string
  /** The peer's node id, escaped; empty of the Workload API. */
  readonly node: string
  /** How many names it has. */
  readonly names: number
}

export interface PageStream extends StreamFacts {
  readonly since: number
  /** Of its first 100 names: those that were refused or are unknown. */
  readonly refused: number
  /** Of its first 100 names: those of which it was not sent the newest version, or has not answered. */
  readonly pending: number
  /** Of its first 100 names: those whose newest version it rejected, at most 3; `/explain` of the name has the reason. */
  readonly rejected: readonly string[]
}

/** The name by which an operator finds a client. */
export function clientOf({ node, subject, pid }: StreamFacts): string {
  if (node !== '') return node
  return subject ?? (pid === undefined ? 'a client' : `the process ${pid}`)
}

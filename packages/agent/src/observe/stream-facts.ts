/** A stream in a list: its id, its owner, and how its client answers. */

export interface PageStreams {
  readonly total: number
  /** At most 500: rejections first, then streams that are behind or have not answered. */
  readonly shown: readonly PageStream[]
}

/** Identifies a stream and its client; `/streams` has the same. */
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
  /** Namespace and name, if the subject is a known pod. */
  readonly pod?: string
  /** The peer's node id, escaped; empty for the Workload API. */
  readonly node: string
  /** How many names it has. */
  readonly names: number
}

export interface PageStream extends StreamFacts {
  readonly since: number
  /** Refused or unknown names, among its first 100. */
  readonly refused: number
  /** Names without the newest version or without its answer, among its first 100. */
  readonly pending: number
  /** Names whose newest version it rejected, among its first 100, at most 3; `/explain` of the name has the reason. */
  readonly rejected: readonly string[]
}

/** The name that identifies a client to an operator. */
export function clientOf({ node, subject, pid }: StreamFacts): string {
  if (node !== '') return node
  return subject ?? (pid === undefined ? 'a client' : `the process ${pid}`)
}

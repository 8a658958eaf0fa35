/** The account of each caller: everything that the process holds for it, over all sockets. */
import { totalmem } from 'node:os'
import type { PeerCredentials } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import { CallerReads } from './caller-reads.ts'
import { LeakyBucket } from './leaky-bucket.ts'
import { RequestQueue } from './request-queue.ts'
import { SharedLimit } from './shared-limit.ts'

/** LRU limit of idle accounts, which are kept for their rates. */
const MAX_ACCOUNTS = 4_096
const GIB = 1024 ** 3

/**
 * A caller is its subject if its socket identifies callers, else its uid, over all sockets; without credentials all
 * peers of one socket are one caller.
 */
export function callerKey(
  caller: PeerCredentials | undefined,
  subject: string | undefined,
  socketPath: string,
): string {
  return subject ?? (caller ? `uid ${caller.uid}` : `callers of ${socketPath}`)
}

/** The holdings of one caller, over all sockets. */
export interface CallerTotals {
  /** Names the caller in messages: `uid 1001`, its subject, or the socket of callers without credentials. */
  readonly key: string
  readonly connections: number
  readonly streams: number
  /** A name of more than 256 bytes counts for each 256 begun. */
  readonly names: number
  /** Charged by `COSTS`. */
  readonly bytes: number
}

/** One caller. The limits are in `CallerBudget`, because each socket can set others. */
export class CallerAccount implements CallerTotals {
  readonly key: string
  connections = 0
  streams = 0
  names = 0
  bytes = 0
  readonly opened = new LeakyBucket()
  readonly faults = new LeakyBucket()
  readonly overhead = new LeakyBucket()
  readonly refusals = new LeakyBucket()
  /** Its refused connections that are being answered now. */
  answers = 0
  readonly answered = new LeakyBucket()
  readonly newIdentities = new LeakyBucket()
  readonly requests = new RequestQueue()
  readonly reads = new CallerReads()
  /** Identities issued on its demand; some may be forgotten by now. */
  readonly identities = new Set<SpiffeId>()
  /** Names of files and tokens, and of Secrets, watched on its demand; some watches may have ended. */
  readonly watched = { files: new Set<string>(), secrets: new Set<string>() }
  /** The time until which its new connections are closed: longer each time, up to a minute. */
  heldUntil = 0
  holdMs = 0

  constructor(key: string) {
    this.key = key
  }
}

/** The accounts of all callers, and what they hold together. */
export class CallerAccounts {
  readonly connections: SharedLimit
  readonly streams: SharedLimit
  readonly bytes: SharedLimit
  readonly #accounts = new Map<string, CallerAccount>()

  constructor(limits: { readonly connections: number; readonly streams: number; readonly bytes: number }) {
    this.connections = new SharedLimit(limits.connections)
    this.streams = new SharedLimit(limits.streams)
    this.bytes = new SharedLimit(limits.bytes)
  }

  of(key: string): CallerAccount {
    const account = this.#accounts.get(key) ?? new CallerAccount(key)
    // The map's last entry is the most recently used.
    this.#accounts.delete(key)
    this.#accounts.set(key, account)
    if (this.#accounts.size > MAX_ACCOUNTS) this.#forgetOne()
    return account
  }

  *connected(): Generator<CallerTotals, void, undefined> {
    for (const account of this.#accounts.values()) if (account.connections > 0) yield account
  }

  #forgetOne(): void {
    for (const [key, { connections }] of this.#accounts) {
      if (connections > 0) continue
      this.#accounts.delete(key)
      return
    }
  }
}

/** The most bytes that all callers together can make this process hold: half of its memory, or of its cgroup's limit, at most 1 GiB. */
export function defaultProcessBytes(): number {
  const constrained = process.constrainedMemory()
  const memory = constrained > 0 ? Math.min(constrained, totalmem()) : totalmem()
  return Math.min(GIB, Math.floor(memory / 2))
}

/** The JSON that the page in the browser gets: plain values, never a key, a token or a PEM. Times are milliseconds since the epoch. */

import type { Problem, Severity } from '../diagnosis/problem.ts'
import type { PageStreams } from '../observe/stream-facts.ts'

/** The answer of `GET /page/state`. */
export interface PageState extends PageSections {
  readonly hello: PageHello
  /** Unordered. */
  readonly identities: readonly PageIdentity[]
}

/** The data of the event `hello`: the first one of `GET /page/events`. */
export interface PageHello {
  readonly version: string
  readonly trustDomain: string
  /** When the process started: a reconnecting page compares it. */
  readonly startedAt: number
  readonly now: number
  /** Number of identities, whose rows follow. */
  readonly identities: number
}

/**
 * The data of the event `change`. After `hello` the stream itself brings everything, in at most 200 rows at a time: the page
 * fetches nothing. From then on it brings changes, only the newest state.
 */
export interface PageChange extends Partial<PageSections> {
  readonly now: number
  /** New rows, and rows that replace the ones of the same name. */
  readonly identities?: readonly PageIdentity[]
  /** Names that are no longer held. */
  readonly gone?: readonly string[]
  /** Number of further rows on the way; absent if none. */
  readonly more?: number
}

export interface PageSections {
  readonly overview: PageOverview
  readonly streams: PageStreams
  readonly roots: PageRoots
}

/** The states of `/config_dump`, which describes them. */
export type PageIdentityState = 'Initializing' | 'Available' | 'Renewing' | 'Failing' | 'Expired' | 'Idle'

export interface PageIdentity {
  readonly name: string
  readonly state: PageIdentityState
  /** Why it is held: it is configured, a stream asked for it, or it was removed a short while ago. */
  readonly hold: 'pinned' | 'on-demand' | 'removed'
  /** These three are absent while no certificate is served. */
  readonly notBefore?: number
  readonly notAfter?: number
  /** Lower-case hex. */
  readonly serial?: string
  /** SHA-256 of the root above the served certificate, hex. */
  readonly root?: string
  /** When it is renewed or tried next; absent while a request is queued or in flight. */
  readonly renewAt?: number
  /** When the CA last issued. */
  readonly issuedAt?: number
  /** Absent unless the last attempt failed. */
  readonly failure?: PageFailure
  /** Why clients would refuse its certificate, or the next one. */
  readonly warning?: string
  /** The `code` of its problem; absent while nothing is wrong. */
  readonly problem?: string
  /** The severity for this identity. */
  readonly severity?: Severity
}

export interface PageFailure {
  /** The code of the newest failure. */
  readonly code: string
  readonly text: string
  /** When the newest failure came. */
  readonly at: number
  /** When the first failure in a row came. */
  readonly since: number
}

export interface PageOverview {
  readonly phase: 'starting' | 'serving' | 'draining'
  /** Worst first. */
  readonly problems: readonly PageProblem[]
  /** The answer of `/healthz/ready`. */
  readonly ready: boolean
  /** The answer of `/healthz/ready?mode=strict`. */
  readonly strictReady: boolean
  readonly counts: Readonly<Record<PageIdentityState, number>>
  /** Identities whose last attempt failed, by the code of the error; only codes that occur. */
  readonly failing: Readonly<Record<string, number>>
  /** How long every identity with a certificate would keep one without the CA; absent while none has one. */
  readonly lastsUntil?: number
  readonly sockets: readonly PageSocket[]
  /** Callers with a connection, at most 100, most connections first. */
  readonly callers: readonly PageCaller[]
  readonly moreCallers: number
  /** Connections that were refused since the start. */
  readonly refusedConnections: number
  /** Absent without a section `kubernetes`. */
  readonly pods?: { readonly known: boolean; readonly problem?: string }
  readonly ca: PageCA
  /** `native` or `webcrypto`. */
  readonly keyGenerator: string
  /** Renewals and retries due in each of the next 60 minutes, starting with this one. */
  readonly plannedPerMinute: readonly number[]
  readonly process: PageProcess
  /** Absent without a `store`. */
  readonly store?: PageStore
  /** The log levels, as `log.level` has them: `info`, or `info,sds:debug`. */
  readonly logLevel: string
}

/** The parts of the page. */
export type PageView = 'identities' | 'streams' | 'sockets' | 'roots' | 'ca' | 'process'

/** A problem that is not pending; `GET /problems` has it in full. */
export interface PageProblem extends Omit<Problem, 'severity' | 'unready' | 'affected'> {
  readonly severity: 'critical' | 'warning'
  /** Number of affected identities. */
  readonly count: number
  /** The identity, if the problem is about one. */
  readonly name?: string
  /** The view with more about it. */
  readonly view: PageView
}

export interface PageSocket {
  readonly path: string
  /** `waiting`: another process listens there; `superseded`: another process took the path; `closed`: it drains. */
  readonly state: 'listening' | 'waiting' | 'superseded' | 'closed'
  /** Why it is waiting, with the remedy. */
  readonly reason?: string
  readonly connections: number
  readonly streams: number
}

export interface PageCaller {
  /** `uid 1001`, its subject, or the socket of callers without credentials. */
  readonly caller: string
  readonly connections: number
  readonly streams: number
  readonly names: number
}

/** The requests to the CA, of all identities together. */
export interface PageCA {
  /** `ca.plugin` of the configuration. */
  readonly plugin: string
  readonly inFlight: number
  /** Limit of requests in flight. */
  readonly window: number
  /** Waiting requests by rank, highest rank first. */
  readonly queued: Readonly<Record<string, number>>
  /** Why the CA is asked for less than is due; `until`: when the next request goes out, where that is known. */
  readonly pause?: { readonly reason: 'rate-limited' | 'ca-down' | 'clock-jumped'; readonly until?: number }
  /** When it last issued a certificate that is still held. */
  readonly lastIssuedAt?: number
  /** The newest failure of a held identity; it may have succeeded since. */
  readonly lastError?: { readonly code: string; readonly text: string; readonly at: number; readonly identity: string }
  /** Lower bound of its clock's lead, by the newest certificate; below zero: it back-dates certificates, or is behind. */
  readonly clockAheadMs?: number
}

export interface PageProcess {
  readonly rssBytes: number
  /** The limit of its control group, or all memory of the machine. */
  readonly memoryLimitBytes: number
  readonly heapUsedBytes: number
}

export interface PageStore {
  readonly directory: string
  /** Changes that are not on disk yet, including failed ones that are retried. */
  readonly unwritten: number
  /** Why the newest write failed, such as `ENOSPC, no space left on device`; absent while none has to be repeated. */
  readonly failure?: string
}

export interface PageRoots {
  readonly trustDomains: readonly PageTrustDomain[]
}

export interface PageTrustDomain {
  readonly trustDomain: string
  /** Phase of the rotation of its roots; `steady`: nothing changes. */
  readonly phase: 'announcing' | 'renewing' | 'retiring' | 'steady'
  /** Newest last. */
  readonly roots: readonly PageRoot[]
}

export interface PageRoot {
  /** SHA-256 of the DER, hex. */
  readonly fingerprint: string
  readonly subject: string
  readonly notAfter: number
  readonly phase: 'announcing' | 'held' | 'trusted' | 'retiring'
  /** Whether the CA, or the configuration, lists it now. */
  readonly isListed: boolean
  /** Certificates under it that are served or wait. */
  readonly leaves: number
  readonly learnedAt: number
  /** When it is expected to leave; absent while it is listed or a certificate needs it. */
  readonly leavesAt?: number
  /** Number of clients that its announcement waits for. */
  readonly waiting: number
  /** The first of these clients, at most 20; `reason`: why it rejects the root. */
  readonly waitsFor: readonly { readonly client: string; readonly reason?: string }[]
}

/** The answer of `GET /page/token`. */
export interface PageToken {
  /** Send it as `x-livery-page` with each PUT. */
  readonly token: string
  /** Whether the caller is the operator without a token: root or the agent's user on the UNIX socket. */
  readonly operator: boolean
  /** Whether `admin.tokenFile` is configured, so that an operator can prove it with a token. */
  readonly tokenFile: boolean
  /** How to let an operator in, if this endpoint refuses every caller; without a full stop. */
  readonly remedy?: string
}

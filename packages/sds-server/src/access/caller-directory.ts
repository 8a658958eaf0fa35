/** The seam for identifying a socket's callers: who called, and the current facts about it. */
import type { Events, PeerCredentials } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'

/** The facts about a caller on which its permission depends. */
export interface CallerFacts {
  /** Such as `ns:default`: a rule in `callers` matches a caller that has all of its selectors. */
  readonly selectors: ReadonlySet<string>
  /** The caller's own identity, which `default` means on a shared socket; `undefined` if none was chosen for it. */
  readonly identity: SpiffeId | undefined
  /** The UID of its pod, whose tokens it may get if `allow` names them. Default: it gets none. */
  readonly pod?: string
}

/** A subject, or a text for operators with the finding and the remedy. */
export type Identification = { readonly subject: string } | { readonly problem: string }

/** Knows the callers of sockets that have `identify`. A subject is who a caller is, such as `pod 1234`; it never changes for a process. */
export interface CallerDirectory {
  /**
   * Identifies the caller of a connection. Called once per connection, before any of its bytes is interpreted. `caller`
   * are its credentials, `descriptor` its open socket, which stays the server's. Must not wait; a fault that it throws
   * refuses the connection as well.
   */
  identifyCaller(caller: PeerCredentials, descriptor: number): Identification
  /** The current facts about a subject; `undefined` before the first facts, and from its end on. */
  factsOf(subject: string): CallerFacts | undefined
  /** Emits a subject whose facts changed, arrived or ended. */
  readonly changes: Events<string>
}

/** The running agent, as the admin endpoint sees it. */
import type { FileSecretEntry, IdentityEntry, RootAction, RootActionResult } from '@livery/core'
import type { WellKnownNames } from '@livery/sds-server'
import type { AdminEvent } from '../observe/agent-event.ts'
import type { LedgerEntry } from '../observe/ledger.ts'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import type { PageSource } from '../page/page-source.ts'

export interface AdminSource extends PageSource {
  readonly names: WellKnownNames
  /** Names that stand for files. Default: none. */
  readonly fileNames?: ReadonlyMap<string, string>
  /** The effective configuration, without secrets. */
  config(): object
  entries(): readonly IdentityEntry[]
  files(): readonly FileSecretEntry[]
  changeRoot(action: RootAction, fingerprint: string): RootActionResult
  explain(name: string): readonly LedgerEntry[]
  /** Renews the certificate of an identity now; `false` if it is not held. */
  renew(identity: string): boolean
  readonly metrics: { readonly contentType: string; text(turns: LoopTurns): Promise<string> }
  readonly log: Pick<LogScopes, 'levels' | 'change'>
  /** A caller with this token is allowed every log level. Default: only the owner of the UNIX socket is. */
  readonly tokenFile?: string | undefined
  /** Reports what somebody did, or was refused, or what became of the endpoint's socket, whatever the log level is. */
  security?(event: AdminEvent): void
}

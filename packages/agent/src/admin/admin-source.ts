/** The running agent, as the admin endpoint sees it. */
import type { IdentityEntry, RootAction, RootActionResult } from '@livery/core'
import type { FileSecretEntry } from '@livery/core/file-secrets'
import type { KeyGenerator, SpiffeId } from '@livery/core/plugin'
import type { SdsServer, WellKnownNames } from '@livery/sds-server'
import type { AgentSource } from '../diagnosis/facts.ts'
import type { AdminEvent } from '../observe/agent-event.ts'
import type { LedgerEntry } from '../observe/ledger.ts'
import type { LogScopes } from '../observe/log-scopes.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'

/** The running SDS server, as far as it is listed. */
export type StreamSource = Pick<SdsServer, 'sockets' | 'streams' | 'callers'>

export interface AdminSource extends AgentSource {
  readonly version: string
  readonly trustDomain: string
  /** `ca.plugin` of the configuration. */
  readonly caPlugin: string
  readonly keyGenerator: Pick<KeyGenerator, 'name'>
  /** Default: the agent does not serve yet. */
  sds?(): StreamSource | undefined
  /** The namespace and name of the pod that a subject stands for. Default: no pods are known. */
  podOf?(subject: string): string | undefined
  identities(): Iterable<SpiffeId>
  entry(identity: string): IdentityEntry | undefined
  plannedPerMinute(): readonly number[]
  /** How many connections were refused since the start. */
  refusedConnections(): Promise<number>
  /** Calls `listener` with the name of each identity that has changed, and of other secrets. */
  onChange(listener: (name: string) => void): Disposable
  readonly names: WellKnownNames
  /** Names that stand for files. Default: none. */
  readonly fileNames?: ReadonlyMap<string, string>
  /** Its file, as {@link nameConfig} names it. Default: the configuration has no file. */
  readonly configFile?: string | undefined
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
  /** A caller with this token may set every log level. Default: only the owner of the UNIX socket may. */
  readonly tokenFile?: string | undefined
  /** Reports what a caller did or was refused, and changes of the endpoint's socket, at every log level. */
  security?(event: AdminEvent): void
}

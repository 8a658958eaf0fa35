/** The running agent, as the page sees it. */
import type { IdentityEntry, KeyGenerator, SpiffeId } from '@livery/core'
import type { SdsServer } from '@livery/sds-server'
import type { AgentSource } from '../diagnosis/facts.ts'
import type { LogScopes } from '../observe/log-scopes.ts'

/** The running SDS server, as far as it is listed. */
export type StreamSource = Pick<SdsServer, 'sockets' | 'streams' | 'callers'>

export interface PageSource extends AgentSource {
  readonly version: string
  readonly trustDomain: string
  /** `ca.plugin` of the configuration. */
  readonly caPlugin: string
  readonly keyGenerator: Pick<KeyGenerator, 'name'>
  readonly log: Pick<LogScopes, 'levels'>
  /** Default: it does not serve yet. */
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
}

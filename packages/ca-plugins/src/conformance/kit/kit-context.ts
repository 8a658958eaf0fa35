/** The agent's side of a plugin, as the kit plays it: a clock that can be set, credentials that change, and a log that is read. */
import { readFile } from 'node:fs/promises'
import type { CAContext, Credential, CredentialRequest, CredentialSource, PluginMetrics } from '@livery/core/plugin'
import { untilAborted } from '@livery/core/plugin'
import type { MovableClock } from './movable-clock.ts'

export interface KitContext extends CAContext {
  readonly clock: MovableClock
  readonly credentials: KitCredentials
  /** Every line that the plugin has logged. */
  readonly lines: readonly string[]
}

/** Gives the token that it has when asked; a request's own token file takes precedence. */
class KitCredentials implements CredentialSource {
  readonly description = 'the token of the conformance kit'
  token = 'conformance-token-1'
  /** If set, it is the answer. */
  failure: Error | undefined

  async get({ tokenFile, signal }: CredentialRequest): Promise<Credential> {
    signal.throwIfAborted()
    if (this.failure) throw this.failure
    if (tokenFile === undefined) return { token: this.token }
    return { token: (await untilAborted(readFile(tokenFile, 'utf8'), signal)).trim() }
  }
}

export function createKitContext(clock: MovableClock, trustDomain: string): KitContext {
  const lines: string[] = []
  const write = (message: string) => void lines.push(message)
  return {
    clock,
    trustDomain,
    credentials: new KitCredentials(),
    lines,
    log: { debug: write, info: write, warn: write, error: write },
    metrics: new CountingMetrics(),
  }
}

class CountingMetrics implements PluginMetrics {
  readonly #counts = new Map<string, number>()

  counter(name: string): { add(count?: number): void } {
    return { add: (count = 1) => void this.#counts.set(name, (this.#counts.get(name) ?? 0) + count) }
  }
}

/** Requests as the SecretManager makes them, which notice what a plugin does with them. */
import type {
  CertificateRequest,
  CertificateSigningRequest,
  KeyType,
  RequestTicket,
  SpiffeId,
} from '@livery/core/plugin'
import type { Subject } from './conformance-case.ts'
import { createKeyMaterial, type KeyMaterial } from './key-material.ts'

export interface KitRequest extends CertificateRequest {
  readonly material: KeyMaterial
  /** How often the CSR was asked for. */
  csrCalls(): number
}

export interface KitRequestOptions {
  readonly identity?: SpiffeId
  readonly dnsNames?: readonly string[]
  readonly ttlSeconds?: number
  readonly signal?: AbortSignal
  readonly tokenFile?: string
  readonly connectWithinMs?: number
  readonly ticket?: RequestTicket
  readonly keyType?: KeyType
  /** Default: a new key. */
  readonly material?: KeyMaterial
  /** Replaces the key's CSR. */
  readonly csr?: () => Promise<CertificateSigningRequest>
}

/** Makes a request, by default for the first identity. */
export async function kitRequest(on: Subject, options: KitRequestOptions = {}): Promise<KitRequest> {
  const identity = options.identity ?? firstOf(on.identities)
  const material =
    options.material ?? (await createKeyMaterial(identity, options.keyType ?? on.keyType, options.dnsNames))
  const { csr = async () => material.csr, dnsNames, tokenFile, connectWithinMs, ticket } = options
  let calls = 0
  return {
    identity,
    ttlSeconds: options.ttlSeconds ?? on.ttlSeconds,
    signal: options.signal ?? new AbortController().signal,
    ...(dnsNames !== undefined && { dnsNames }),
    ...(tokenFile !== undefined && { tokenFile }),
    ...(connectWithinMs !== undefined && { connectWithinMs }),
    ...(ticket !== undefined && { ticket }),
    csr: () => {
      calls++
      return csr()
    },
    material,
    csrCalls: () => calls,
  }
}

/** A ticket whose note can be read. */
export class KitTicket implements RequestTicket {
  stored: string | undefined
  readonly #listeners: (() => void)[] = []

  async store(value: string | undefined): Promise<void> {
    this.stored = value
    for (const wake of this.#listeners.splice(0)) wake()
  }

  /** Resolves once a note is kept. */
  async noted(): Promise<string> {
    while (this.stored === undefined) await new Promise<void>(resolve => this.#listeners.push(resolve))
    return this.stored
  }
}

export function firstOf<T>(list: readonly T[]): T {
  const [first] = list
  if (first === undefined) throw new TypeError('Cannot run the conformance kit: identities is empty. Give one.')
  return first
}

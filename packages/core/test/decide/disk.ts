/** Data that outlives a process: certificates and roots, and the dates of reads. */

import type { StoredRoot } from '../../src/contract/trust-anchor.ts'
import type { Found } from '../../src/decide/step.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import type { Identity } from '../../src/state/identity.ts'

export interface Stored extends Pick<Found, 'receivedAt' | 'slot' | 'wish' | 'isProvisional'> {
  readonly notBefore: number
  readonly notAfter: number
  readonly rootFingerprint: string
}

export class Disk {
  roots: readonly StoredRoot[] = []
  isBroken = false
  #certificates = new Map<SpiffeId, Stored>()
  /** As they were when the process began to end: it forgets nothing from then on. */
  #kept: ReadonlyMap<SpiffeId, Stored> | undefined

  has(id: SpiffeId): boolean {
    return this.#certificates.has(id)
  }

  get(id: SpiffeId): Stored | undefined {
    return this.#certificates.get(id)
  }

  put({ id, current }: Identity): void {
    if (!current || (current.source !== 'signed' && current.source !== 'brought')) return
    const { secret, receivedAt, slot, wish, source, root } = current
    const { notBefore, notAfter } = secret
    const { fingerprint: rootFingerprint } = root
    const isProvisional = source === 'brought'
    this.#certificates.set(id, { notBefore, notAfter, receivedAt, slot, wish, rootFingerprint, isProvisional })
  }

  forget(id: SpiffeId): void {
    this.#certificates.delete(id)
  }

  close(): void {
    this.#kept = new Map(this.#certificates)
  }

  open(): void {
    this.#certificates = new Map(this.#kept)
    this.#kept = undefined
  }
}

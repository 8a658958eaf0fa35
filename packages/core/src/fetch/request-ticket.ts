/** The ticket of one request: the note of a plugin that waits for an approval, kept with the key of the request. */

import type { RequestTicket } from '../contract/ca-client.ts'
import type { PendingRequest, PendingRequests } from '../contract/store.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { HeldKey, RequestKey } from './request-key.ts'

/** The request that a ticket belongs to. */
export interface TicketHolder {
  readonly id: SpiffeId
  /** The text of the request's wish. */
  readonly wish: string
  readonly controller: AbortController
}

/** Stores nothing once the request has ended or is given up. */
export class Ticket implements RequestTicket, Disposable {
  stored: string | undefined
  readonly #pending: PendingRequests
  readonly #holder: TicketHolder
  readonly #key: RequestKey
  #hasEnded = false

  constructor(pending: PendingRequests, holder: TicketHolder, key: RequestKey, before: PendingRequest | undefined) {
    this.#pending = pending
    this.#holder = holder
    this.#key = key
    this.stored = before?.note
  }

  async store(note: string | undefined): Promise<void> {
    const { id, wish } = this.#holder
    if (this.#isOver()) return
    const key = note === undefined ? undefined : await this.#key.generated()
    if (this.#isOver()) return
    this.stored = note
    if (note === undefined || key === undefined) this.#pending.drop(id)
    else await putPending(this.#pending, id, { note, wish }, key)
  }

  #isOver(): boolean {
    return this.#hasEnded || this.#holder.controller.signal.aborted
  }

  [Symbol.dispose](): void {
    this.#hasEnded = true
  }
}

/** The key is open only while it is kept. */
async function putPending(
  pending: PendingRequests,
  id: SpiffeId,
  facts: Pick<PendingRequest, 'note' | 'wish'>,
  { sealed, csrDer, publicKeyDer }: HeldKey,
): Promise<void> {
  const privateKeyPem = new Uint8Array(sealed.byteLength)
  try {
    sealed.copyTo(privateKeyPem, 0)
    await pending.put(id, { ...facts, key: { privateKeyPem, csrDer, publicKeyDer } })
  } finally {
    privateKeyPem.fill(0)
  }
}

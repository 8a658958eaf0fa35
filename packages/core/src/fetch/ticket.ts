/** A request that waits for an approval: the plugin's note and the key, from one attempt to the next. */

import type { RequestTicket } from '../contract/ca-client.ts'
import { wishText } from '../contract/certificate-wish.ts'
import type { HeldKey, PendingRequest, PendingRequests } from '../contract/store.ts'
import { isCurrent, type Request } from '../state/identity.ts'

/** The previous attempt's, unless its CSR is for another wish. */
export async function continued(pending: PendingRequests, { of, wish }: Request): Promise<PendingRequest | undefined> {
  const before = await pending.get(of.id)
  if (!before || before.wish === wishText(wish)) return before
  before.key.sealed.wipe()
  pending.drop(of.id)
  return undefined
}

/** Stores nothing once the request has ended or is given up. */
export class Ticket implements RequestTicket {
  stored: string | undefined
  readonly #pending: PendingRequests
  readonly #request: Request
  readonly #signal: AbortSignal
  readonly #keyOf: () => Promise<HeldKey>

  /** `stored`: the note of the previous attempt. */
  constructor(
    pending: PendingRequests,
    request: Request,
    signal: AbortSignal,
    keyOf: () => Promise<HeldKey>,
    stored: string | undefined,
  ) {
    this.#pending = pending
    this.#request = request
    this.#signal = signal
    this.#keyOf = keyOf
    this.stored = stored
  }

  async store(note: string | undefined): Promise<void> {
    if (this.#isOver()) return
    const key = note === undefined ? undefined : await this.#keyOf()
    if (this.#isOver()) return
    const { of, wish } = this.#request
    this.stored = note
    if (note === undefined || key === undefined) this.#pending.drop(of.id)
    else await this.#pending.put(of.id, { note, wish: wishText(wish), key })
  }

  #isOver(): boolean {
    return this.#signal.aborted || !isCurrent(this.#request)
  }
}

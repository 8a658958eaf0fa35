/** The versions of every trust bundle on every live stream: the last accepted one, and a later rejected one. */

import type { TrustBundleSecret } from '../secrets/secret-item.ts'

/** One live stream. Disposing it reports that the stream is closed. */
export interface StreamReceipts extends Disposable {
  /** It is on its way. */
  sent(bundle: TrustBundleSecret): void
  accepted(bundle: TrustBundleSecret): void
  /** `reason` is the peer's own text, scrubbed and escaped. */
  rejected(bundle: TrustBundleSecret, reason: string): void
}

/** Implemented by the SecretManager, called by a server. */
export interface Receipts {
  /** A stream that was opened. `client` says who is at its other end, for people. */
  open(client: () => string): StreamReceipts
}

/** One stream and one bundle. */
export interface BundleReceipt {
  /** The bundle's {@link TrustBundleSecret.name}. */
  readonly name: string
  /** The peer of the stream, for people. */
  readonly client: () => string
  /** The last version that it accepted, and uses. */
  readonly accepted: TrustBundleSecret | undefined
  /** The version that it has rejected since then, and why. */
  readonly rejected: { readonly bundle: TrustBundleSecret; readonly reason: string } | undefined
}

/** A receipt changed. `sent`: the stream had no version of this bundle before. */
export type ReceiptEvent =
  | { readonly kind: 'sent'; readonly receipt: BundleReceipt; readonly bundle: TrustBundleSecret }
  | { readonly kind: 'acknowledged'; readonly receipt: BundleReceipt }
  | { readonly kind: 'streamClosed'; readonly receipt: BundleReceipt }

interface Receipt extends BundleReceipt {
  accepted: BundleReceipt['accepted']
  rejected: BundleReceipt['rejected']
}

/** Holds one small object for each stream and bundle. A message that is sent or accepted allocates nothing. */
export class BundleReceipts implements Receipts {
  readonly #byName = new Map<string, Set<Receipt>>()
  readonly #isAwaited: (name: string) => boolean
  readonly #dispatch: (event: ReceiptEvent) => void

  /** Only changes of bundles that are awaited somewhere are dispatched. */
  constructor(isAwaited: (name: string) => boolean, dispatch: (event: ReceiptEvent) => void) {
    this.#isAwaited = isAwaited
    this.#dispatch = dispatch
  }

  /** The receipts of all live streams that were sent this bundle. */
  of(name: string): Iterable<BundleReceipt> {
    return this.#byName.get(name) ?? []
  }

  open(client: () => string): StreamReceipts {
    return new OpenStream(client, this)
  }

  /** The stream was sent its first version of this bundle. */
  add(client: () => string, bundle: TrustBundleSecret): Receipt {
    const { name } = bundle
    const receipt: Receipt = { name, client, accepted: undefined, rejected: undefined }
    const receipts = this.#byName.get(name) ?? new Set()
    this.#byName.set(name, receipts.add(receipt))
    if (this.#isAwaited(name)) this.#dispatch({ kind: 'sent', receipt, bundle })
    return receipt
  }

  acknowledged(receipt: Receipt): void {
    if (this.#isAwaited(receipt.name)) this.#dispatch({ kind: 'acknowledged', receipt })
  }

  delete(receipt: Receipt): void {
    const receipts = this.#byName.get(receipt.name)
    if (!receipts?.delete(receipt)) return
    if (receipts.size === 0) this.#byName.delete(receipt.name)
    if (this.#isAwaited(receipt.name)) this.#dispatch({ kind: 'streamClosed', receipt })
  }
}

/** Shared by all streams that were sent no bundle; never written to. */
const NO_RECEIPTS: Receipt[] = []

class OpenStream implements StreamReceipts {
  readonly #client: () => string
  readonly #all: BundleReceipts
  /** One for each bundle: nearly always one. */
  #receipts = NO_RECEIPTS

  constructor(client: () => string, all: BundleReceipts) {
    this.#client = client
    this.#all = all
  }

  sent(bundle: TrustBundleSecret): void {
    if (!this.#find(bundle)) this.#receipts = this.#receipts.concat(this.#all.add(this.#client, bundle))
  }

  accepted(bundle: TrustBundleSecret): void {
    const receipt = this.#find(bundle)
    if (!receipt) return
    receipt.accepted = bundle
    receipt.rejected = undefined
    this.#all.acknowledged(receipt)
  }

  rejected(bundle: TrustBundleSecret, reason: string): void {
    const receipt = this.#find(bundle)
    if (!receipt) return
    receipt.rejected = { bundle, reason }
    this.#all.acknowledged(receipt)
  }

  [Symbol.dispose](): void {
    for (const receipt of this.#receipts) this.#all.delete(receipt)
    this.#receipts = NO_RECEIPTS
  }

  #find({ name }: TrustBundleSecret): Receipt | undefined {
    for (const receipt of this.#receipts) if (receipt.name === name) return receipt
    return undefined
  }
}

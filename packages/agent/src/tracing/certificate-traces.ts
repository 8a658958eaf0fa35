/** One trace for each certificate, of what the ledger has too: asked for, key and CSR, the CA's answer, its check, pushes and ACKs. */
import {
  type Clock,
  isSpiffeId,
  type SecretEvent,
  type SecretItem,
  type SecretName,
  type SecretReport,
  type SpiffeId,
} from '@livery/core'
import type { SdsEvent, StreamInfo } from '@livery/sds-server'
import { ExpiringMap } from './expiring-map.ts'
import type { Attributes, Span, Spans } from './spans.ts'

/** A certificate that is being asked for. */
interface Issuance {
  readonly root: Span
  /** Until the CA is asked. */
  queue: Span | undefined
  /** From the CA's answer on. */
  check: Span | undefined
}

/** A certificate that was issued: its pushes belong to the same trace. */
interface Issued {
  readonly root: Span
  readonly serialNumber: string
}

type IssuedEvent = Extract<SecretEvent, { readonly kind: 'issued' }>

/** The secrets that are served now. */
export interface ServedSecrets {
  current(name: SecretName): SecretItem | undefined
  knows(name: SecretName): boolean
}

/** Of each kind, for a flood of identities or streams: what is more is not traced. */
const MAX_OPEN = 2_048
/** Longer than the deadline of a request; a queue behind a CA that is down may take longer, and is not traced to its end. */
const ISSUANCE_MS = 600_000
/** A stream that asks later is another story. */
const PUSHED_WITHIN_MS = 60_000
const ACK_WITHIN_MS = 60_000
/** The Workload API has no ACK. */
const ACKNOWLEDGED: ReadonlySet<StreamInfo['method']> = new Set(['StreamSecrets', 'DeltaSecrets'])

export class CertificateTraces implements Disposable {
  readonly spans: Spans
  readonly #issuances: ExpiringMap<Issuance>
  readonly #issued: ExpiringMap<Issued>
  /** By stream and name. */
  readonly #pushes: ExpiringMap<Span>

  constructor(spans: Spans, clock: Clock) {
    this.spans = spans
    const bounds = { clock, maxEntries: MAX_OPEN }
    this.#issuances = new ExpiringMap<Issuance>({
      ...bounds,
      lifeMs: ISSUANCE_MS,
      onExpired: issuance => this.#fail(issuance, 'abandoned', 'there was no result in time'),
    })
    this.#issued = new ExpiringMap<Issued>({ ...bounds, lifeMs: PUSHED_WITHIN_MS, onExpired: () => {} })
    this.#pushes = new ExpiringMap<Span>({
      ...bounds,
      lifeMs: ACK_WITHIN_MS,
      onExpired: push => spans.fail(push, 'unanswered', 'the client did not answer'),
    })
  }

  /** Ends all spans that are open. */
  [Symbol.dispose](): void {
    this.#issuances[Symbol.dispose]()
    this.#issued[Symbol.dispose]()
    this.#pushes[Symbol.dispose]()
  }

  secret({ name, event }: SecretReport): void {
    switch (event.kind) {
      case 'csr-sent':
        this.#sent(name, event.reason)
        break
      case 'ca-error':
        this.#fail(this.#issuances.take(name), event.code, event.message)
        break
      case 'issued':
        this.#succeeded(name, event)
        break
      case 'restored':
        this.#end(name, { 'livery.restored_from': event.from })
        break
      case 'withdrawn':
        this.#issued.expire(name)
        this.#end(name, { 'livery.withdrawn': event.reason })
        break
    }
  }

  sds(event: SdsEvent, secrets: ServedSecrets): void {
    if (event.kind !== 'stream-report' || !('ledgerName' in event.report)) return
    const { report, stream } = event
    const { ledgerName } = report
    const push = `${stream.id} ${ledgerName}`
    switch (report.kind) {
      case 'asked':
        this.#asked(ledgerName, stream.connection.socket, secrets)
        break
      case 'pushed':
        this.#pushed(push, { name: ledgerName, version: report.version }, stream, secrets)
        break
      case 'acked':
        this.spans.end(this.#pushes.take(push))
        break
      case 'nacked':
        this.#rejected(push, report.detail)
        break
    }
  }

  /** The span that a call to the CA for this identity belongs to. */
  parentOf(identity: string): Span | undefined {
    return this.#issuances.get(identity)?.root
  }

  /** The CA has answered: what follows is the check of its answer. */
  answered(identity: string): void {
    const issuance = this.#issuances.get(identity)
    if (issuance) issuance.check ??= this.spans.start('check', { parent: issuance.root })
  }

  #asked(name: string, socket: string, secrets: ServedSecrets): void {
    if (!isSpiffeId(name)) return
    const issuance = this.#issuances.get(name) ?? this.#queue(name, secrets)
    if (issuance) this.spans.note(issuance.root, 'asked', { 'livery.socket': socket })
  }

  /** It has no certificate, and its turn to ask the CA has not come. */
  #queue(identity: SpiffeId, secrets: ServedSecrets): Issuance | undefined {
    const secret = { kind: 'identity', identity } as const
    if (!secrets.knows(secret) || secrets.current(secret)) return undefined
    const issuance = this.#begin(identity)
    if (issuance) issuance.queue = this.spans.start('queue', { parent: issuance.root })
    return issuance
  }

  #sent(name: string, reason: string): void {
    const waiting = this.#issuances.get(name)
    const issuance = waiting?.queue ? waiting : this.#begin(name)
    if (!issuance) return
    this.spans.end(issuance.queue)
    issuance.queue = undefined
    issuance.root.setAttribute('livery.reason', reason)
  }

  #succeeded(name: string, { serialNumber, notAfter }: Pick<IssuedEvent, 'serialNumber' | 'notAfter'>): void {
    const ends = new Date(notAfter).toISOString()
    const root = this.#end(name, { 'livery.serial_number': serialNumber, 'livery.not_after': ends })
    if (root) this.#issued.set(name, { root, serialNumber })
  }

  /** Only the certificate that was just issued: an older one may be pushed while that waits for its time. */
  #pushed(
    key: string,
    { name, version }: { readonly name: string; readonly version: string },
    { id, method, connection }: StreamInfo,
    secrets: ServedSecrets,
  ): void {
    const issued = this.#issued.get(name)
    if (!issued || !isSpiffeId(name)) return
    const current = secrets.current({ kind: 'identity', identity: name })
    if (current?.kind !== 'certificate' || current.version !== version) return
    if (current.serialNumber !== issued.serialNumber) return
    const attributes = {
      'livery.identity': name,
      'livery.serial_number': issued.serialNumber,
      'livery.socket': connection.socket,
      'livery.stream': id,
      'livery.version': version,
    }
    const push = this.spans.start('push', { parent: issued.root, attributes })
    if (!ACKNOWLEDGED.has(method) || !this.#pushes.set(key, push)) this.spans.end(push)
  }

  #rejected(key: string, detail: string): void {
    const push = this.#pushes.take(key)
    if (push) this.spans.fail(push, 'nacked', detail)
  }

  #begin(name: string): Issuance | undefined {
    const root = this.spans.start('certificate', { attributes: { 'livery.identity': name } })
    const issuance: Issuance = { root, queue: undefined, check: undefined }
    return this.#issuances.set(name, issuance) ? issuance : undefined
  }

  /** The root of the trace that has ended; `undefined` if there was none. */
  #end(name: string, attributes: Attributes): Span | undefined {
    const issuance = this.#issuances.take(name)
    if (!issuance) return undefined
    const { root, queue, check } = issuance
    this.spans.end(queue)
    this.spans.end(check)
    this.spans.end(root.setAttributes(attributes))
    return root
  }

  #fail(issuance: Issuance | undefined, type: string, message: string): void {
    if (!issuance) return
    const { root, queue, check } = issuance
    this.spans.end(queue)
    if (check) this.spans.fail(check, type, message)
    this.spans.fail(root, type, message)
  }
}

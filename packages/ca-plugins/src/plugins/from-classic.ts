/** An adapter for CA clients of the shape that Istio's agent has: `CSRSign`, `GetRootCertBundle`, `Close`. */
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
  splitCertificates,
  untilAborted,
} from '@livery/core'
import { caError } from '../answers/ca-error.ts'
import { badAnswer, ChainReader } from '../answers/certificate-chain.ts'
import { reasonOf } from '../answers/reason-of.ts'
import { scrub } from '../answers/scrub.ts'
import { Closable } from '../transport/closable.ts'

/** A CA client as Istio's `security.Client` is, in TypeScript. */
export interface ClassicCAClient {
  /**
   * Resolves with PEM: the leaf first, then the intermediates, and the root last. May reject with a `CAError`; another
   * error is taken for a CA that is not available. `signal` is aborted when nobody waits any more.
   */
  csrSign(csrPem: string, ttlSeconds: number, options: { readonly signal: AbortSignal }): Promise<readonly string[]>
  /** All the roots that the CA has now, PEM. Without it they are learned from the chains. */
  getRootCertBundle?(options: { readonly signal: AbortSignal }): Promise<readonly string[]>
  /** Called once. */
  close?(): void | Promise<void>
}

/**
 * `classic` as a {@link CAClient}; it has `trustBundle` where `classic` has `getRootCertBundle`. `name` is the CA's in
 * messages.
 */
export function fromClassic(classic: ClassicCAClient, name = 'the CA'): CAClient {
  return new ClassicAdapter(classic, name)
}

/** For an answer that cannot be used. */
const REMEDY = 'Correct the client of this CA'

class ClassicAdapter implements CAClient {
  readonly trustBundle?: NonNullable<CAClient['trustBundle']>
  readonly #classic: ClassicCAClient
  readonly #name: string
  readonly #chains = new ChainReader({ rootsLast: true })
  readonly #closing: Closable

  constructor(classic: ClassicCAClient, name: string) {
    this.#classic = classic
    this.#name = name
    this.#closing = new Closable(name)
    if (classic.getRootCertBundle) this.trustBundle = ({ signal }) => this.#trustBundle(signal)
  }

  async issue({ identity, ttlSeconds, signal, csr }: CertificateRequest): Promise<IssuedCertificate> {
    const action = `get a certificate for ${identity} from ${this.#name}`
    const ending = this.#closing.until(signal)
    const { pem } = await untilAborted(csr(), ending)
    const seconds = Math.max(1, Math.round(ttlSeconds))
    const elements = await this.#ask(action, ending, () => this.#classic.csrSign(pem, seconds, { signal: ending }))
    return this.#chains.read(elements, { action, remedy: REMEDY })
  }

  /** Open calls reject. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closing.signal.aborted) return
    this.#closing.close()
    await this.#classic.close?.()
  }

  async #trustBundle(signal: AbortSignal): Promise<readonly string[]> {
    const action = `get the roots of ${this.#name}`
    const ending = this.#closing.until(signal)
    const elements = await this.#ask(action, ending, async () => this.#classic.getRootCertBundle?.({ signal: ending }))
    const roots = elements.flatMap(splitCertificates)
    if (roots.length === 0) throw badAnswer({ action, remedy: REMEDY }, 'has no PEM certificate')
    return roots
  }

  /** The answer of `call`, once it is known to be a list of text: its author may have written JavaScript. */
  async #ask(action: string, signal: AbortSignal, call: () => Promise<unknown>): Promise<readonly string[]> {
    let answer: unknown
    try {
      answer = await untilAborted(call(), signal)
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof CAError) throw error
      throw caError('unavailable', { action, reason: scrub(reasonOf(error), []), remedy: 'It is asked again' })
    }
    if (Array.isArray(answer) && answer.every(element => typeof element === 'string')) return answer
    throw badAnswer({ action, remedy: REMEDY }, 'is not a list of PEM')
  }
}

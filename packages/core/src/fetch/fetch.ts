/** One certificate from asking to judged: key, CSR, the CA's answer, all under one deadline. */
import {
  type CAClient,
  CAError,
  type CertificateSigningRequest,
  type IssuedCertificate,
} from '../contract/ca-client.ts'
import type { GeneratedKey, KeyGenerator, KeyType, PrivateKeyFormat } from '../contract/key-generator.ts'
import { type KeyVault, SealedKey } from '../contract/key-vault.ts'
import type { HeldKey } from '../contract/store.ts'
import type { Answer } from '../decide/step.ts'
import type { Request } from '../state/identity.ts'
import { after, untilAborted } from '../time/deadline.ts'
import { derToPem } from '../x509/pem.ts'
import { type JudgeOptions, judge, type PrivateKey } from './judge.ts'
import { continued, Ticket } from './ticket.ts'

export interface FetchOptions extends JudgeOptions {
  readonly ca: CAClient
  readonly keyGenerator: KeyGenerator
  readonly vault: KeyVault
  readonly keyType: KeyType
  readonly keyFormat: PrivateKeyFormat
  /** Deadline of the whole, milliseconds. */
  readonly timeoutMs: number
}

/**
 * Asks the CA once, and calls `answered` in the same turn of the event loop in which the answer was judged by the roots of
 * that turn. Rejects with what the plugin throws, with the verdict, or with the reason of `controller` when that is aborted.
 * Then no key is left except a pending request's; a key in a late answer is wiped, too. A plugin that never answers or
 * ignores its signal costs no more than the deadline.
 */
export async function fetch(
  options: FetchOptions,
  request: Request,
  controller: AbortController,
  answered: (answer: Answer) => void,
): Promise<void> {
  const { clock, timeoutMs, pending, keyGenerator } = options
  const { signal } = controller
  const { wish } = request
  const { id } = request.of
  using _deadline = after(clock, timeoutMs, () =>
    controller.abort(new CAError('timeout', `The CA did not answer for ${id} within ${timeoutMs} ms`)),
  )
  // A plugin runs next, and never inside the caller's turn.
  const before = await (pending.has(id) ? untilAborted(continued(pending, request), signal) : undefined)
  const type = wish.keyType ?? options.keyType
  const keyRequest = { type, identity: id, dnsNames: wish.dnsNames, format: options.keyFormat }
  const key = new RequestKey(options.vault, () => keyGenerator.generate(keyRequest, { signal }), before?.key)
  const ticket = new Ticket(pending, request, signal, () => key.generated(), before?.note)
  const answering = ask(options.ca, request, signal, key, ticket)
  let isTaken = false
  const take = (answer: Answer) => {
    isTaken = true
    answered(answer)
  }
  try {
    await untilAborted(
      judge(options, request, signal, answering, answer => key.privateKey(answer), take),
      signal,
    )
  } catch (error) {
    // `decide` has the answer, and its key.
    if (isTaken) throw error
    key.wipe()
    void wipeBrought(answering)
    throw error
  }
}

async function ask(
  ca: CAClient,
  { of, wish, ttlSeconds, tokenFile, connectWithinMs, replaces }: Request,
  signal: AbortSignal,
  key: RequestKey,
  ticket: Ticket,
): Promise<IssuedCertificate> {
  const { dnsNames } = wish
  const optional = {
    ...(dnsNames.length > 0 && { dnsNames }),
    ...(tokenFile !== undefined && { tokenFile }),
    ...(connectWithinMs !== undefined && { connectWithinMs }),
    ...(replaces && { replaces }),
  }
  return await ca.issue({ identity: of.id, ttlSeconds, ...optional, signal, csr: () => key.csr(), ticket })
}

/** Wipes the key of an answer that nobody takes, whenever it comes. Never rejects. */
async function wipeBrought(answering: Promise<IssuedCertificate>): Promise<void> {
  try {
    const { privateKey } = await answering
    if (privateKey instanceof Uint8Array) privateKey.fill(0)
  } catch {} // there is no answer, or none with a key
}

/** Made when a plugin first asks for the CSR, unless the previous attempt or the answer has one. */
class RequestKey {
  readonly #vault: KeyVault
  readonly #generate: () => Promise<GeneratedKey>
  #pending: Promise<HeldKey> | undefined
  #brought: SealedKey | undefined

  constructor(vault: KeyVault, generate: () => Promise<GeneratedKey>, present: HeldKey | undefined) {
    this.#vault = vault
    this.#generate = generate
    if (present) this.#pending = Promise.resolve(present)
  }

  generated(): Promise<HeldKey> {
    this.#pending ??= this.#make()
    return this.#pending
  }

  async csr(): Promise<CertificateSigningRequest> {
    const { csrDer } = await this.generated()
    return { der: csrDer, pem: derToPem(csrDer, 'CERTIFICATE REQUEST') }
  }

  /** The answer's own key, or the one that was generated for it. */
  async privateKey({ privateKey }: IssuedCertificate): Promise<PrivateKey> {
    if (privateKey) {
      this.#brought = new SealedKey(this.#vault, privateKey)
      this.#wipeGenerated()
      return { sealed: this.#brought }
    }
    const generated = await this.#pending
    if (!generated)
      throw new CAError('bad-response', 'The CA plugin answered without a key and without asking for the CSR')
    return generated
  }

  /** Wipes the key, also one that is still being made. */
  wipe(): void {
    this.#brought?.wipe()
    this.#wipeGenerated()
  }

  #wipeGenerated(): void {
    this.#pending?.then(
      ({ sealed }) => sealed.wipe(),
      () => {}, // the caller of csr() has the error
    )
  }

  async #make(): Promise<HeldKey> {
    const { privateKeyPem, csrDer, publicKeyDer } = await this.#generate()
    return { sealed: new SealedKey(this.#vault, privateKeyPem), csrDer, publicKeyDer }
  }
}

/** A {@link CAClient} that asks the Kubernetes API: https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/ */
import { createHash } from 'node:crypto'
import {
  type CAClient,
  CAError,
  type CertificateRequest,
  type Clock,
  type IssuedCertificate,
  type PluginLog,
  untilAborted,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { ChainReader } from '../../answers/certificate-chain.ts'
import type { ApiConnection, Caller } from '../../kubernetes-api/api-connection.ts'
import { NoAnswer } from '../../kubernetes-api/api-errors.ts'
import { Closable } from '../../transport/closable.ts'
import { certificatesOf, RequestIsOver, sameRequest } from './approval.ts'
import type { KubernetesCsrConfig } from './config.ts'
import type { SigningRequest } from './signing-request.ts'
import type { NewSigningRequest, SigningRequestApi } from './signing-request-api.ts'

interface KubernetesCsrParts {
  readonly config: Pick<KubernetesCsrConfig, 'signerName' | 'usages'>
  readonly clock: Clock
  /** A number in [0, 1). */
  readonly random: () => number
  readonly log: Pick<PluginLog, 'info'>
  readonly connection: ApiConnection
  readonly api: SigningRequestApi
  /** The signer's current roots. */
  readonly roots: (signal: AbortSignal) => Promise<readonly string[]>
}

/** The bounds of `spec.expirationSeconds`. */
const MIN_SECONDS = 600
const MAX_SECONDS = 2 ** 31 - 1

/** One call of `issue`. */
interface IssueRequest {
  readonly asked: NewSigningRequest
  /** Follows the name of the request in messages. */
  readonly whose: string
  readonly ticket: CertificateRequest['ticket']
  readonly caller: Caller
}

/** A request at the API server, and when it was created there (milliseconds since the epoch). */
interface Waiting {
  readonly request: SigningRequest
  readonly since: number
}

export class KubernetesCsrClient implements CAClient {
  readonly #parts: KubernetesCsrParts
  readonly #chains = new ChainReader()
  readonly #closing = new Closable('the API server')

  constructor(parts: KubernetesCsrParts) {
    this.#parts = parts
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const { identity, ttlSeconds, tokenFile, ticket } = request
    const caller = { signal: this.#closing.until(request.signal), ...(tokenFile !== undefined && { tokenFile }) }
    const asked = this.#asked(await untilAborted(request.csr(), caller.signal), ttlSeconds)
    await this.#parts.connection.reachable(request, caller.signal)
    try {
      return { chain: await this.#chain({ asked, caller, ticket, whose: `for ${identity}` }) }
    } catch (error) {
      if (error instanceof RequestIsOver) await ticket?.store(undefined)
      throw error
    }
  }

  /** The roots that the signer's certificates lead to. */
  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const until = this.#closing.until(signal)
    return untilAborted(this.#parts.roots(until), until)
  }

  /** Open calls reject. Requests stay at the API server, where their tickets find them again. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    await this.#parts.connection[Symbol.asyncDispose]()
  }

  #asked({ der, pem }: { readonly der: Uint8Array; readonly pem: string }, ttlSeconds: number): NewSigningRequest {
    const { signerName, usages } = this.#parts.config
    const expirationSeconds = Math.min(Math.max(Math.ceil(ttlSeconds), MIN_SECONDS), MAX_SECONDS)
    const digest = createHash('sha256')
      .update(JSON.stringify([signerName, usages, expirationSeconds]))
      .update(der)
    return {
      name: `livery-${digest.digest('hex').slice(0, 40)}`,
      request: Buffer.from(pem).toString('base64'),
      signerName,
      usages,
      expirationSeconds,
    }
  }

  async #chain(issuing: IssueRequest): Promise<readonly string[]> {
    const { api, clock, random, log } = this.#parts
    const { whose, caller, asked } = issuing
    const { request, since } = (await this.#resume(issuing)) ?? (await this.#submit(issuing))
    try {
      const certificates = await certificatesOf({ api, clock, random, whose }, request, since, caller)
      return this.#chainIn(certificates, `get a certificate ${whose} from ${asked.signerName}`)
    } catch (error) {
      // Core ends the call long before a manual approval, and does not know the request's name.
      if (caller.signal.aborted)
        log.info(`The request ${request.name} ${whose} still waits to be approved and signed by ${asked.signerName}.`)
      throw error
    }
  }

  #chainIn(certificates: string, action: string): readonly string[] {
    try {
      return this.#chains.read([certificates], { action, remedy: 'Check the signer' }).chain
    } catch (error) {
      if (!(error instanceof CAError)) throw error
      // The next look would find the same certificates.
      throw new RequestIsOver(error.code, error.message, { cause: error.cause })
    }
  }

  /** The request that the ticket notes, if it has the same key and signer. */
  async #resume({ asked, whose, ticket, caller }: IssueRequest): Promise<Waiting | undefined> {
    const note = parseNote(ticket?.stored)
    if (!note) return undefined
    const request = sameRequest(await this.#parts.api.find(note.name, whose, caller), note, { whose })
    return isFor(request, asked) ? { request, since: note.since } : undefined
  }

  async #submit({ asked, whose, ticket, caller }: IssueRequest): Promise<Waiting> {
    const request = await this.#create(asked, whose, caller)
    const since = this.#parts.clock.now()
    await ticket?.store(formatNote({ name: request.name, uid: request.uid, since }))
    return { request, since }
  }

  async #create(asked: NewSigningRequest, whose: string, caller: Caller): Promise<SigningRequest> {
    const { api } = this.#parts
    let isRepeated = false
    let created: SigningRequest | undefined
    try {
      created = await api.create(asked, whose, caller)
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error
      // The first call may have arrived and taken the name, which comes from the CSR.
      isRepeated = true
      created = await api.create(asked, whose, caller)
    }
    if (created) return created
    const present = isRepeated ? await api.find(asked.name, whose, caller) : undefined
    if (present && isFor(present, asked)) return present
    // Another client or an earlier call made the request: it does not answer this one.
    const another = await api.create({ ...asked, name: `${asked.name}-`, generateName: true }, whose, caller)
    if (another) return another
    throw caError('unavailable', {
      action: `create the request ${asked.name} ${whose}`,
      reason: 'its name is taken',
      remedy: 'It is asked again',
    })
  }
}

function isFor({ request, signerName }: SigningRequest, asked: NewSigningRequest): boolean {
  return request === asked.request && signerName === asked.signerName
}

/** The note on a ticket: which request it is, and since when it waits. */
interface PendingNote {
  readonly name: string
  readonly uid: string
  /** Milliseconds since the epoch. */
  readonly since: number
}

function formatNote({ name, uid, since }: PendingNote): string {
  return JSON.stringify({ name, uid, since })
}

/** `undefined` for any other text, such as another plugin's note. */
function parseNote(text: string | undefined): PendingNote | undefined {
  if (text === undefined) return undefined
  try {
    const { name, uid, since } = Object(JSON.parse(text))
    if (typeof name === 'string' && typeof uid === 'string' && Number.isFinite(since)) return { name, uid, since }
  } catch {
    // Not JSON.
  }
  return undefined
}

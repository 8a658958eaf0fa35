/** Several CAs of one trust domain as one: the first of them that answers issues. */
import {
  type CAChange,
  type CAClient,
  CAError,
  type CAErrorCode,
  type CertificateRequest,
  type Clock,
  type IssuedCertificate,
  type PluginLog,
} from '@livery/core'
import { CircuitBreaker } from './circuit-breaker.ts'

/** One of the CAs, in the order of preference. */
export interface FailoverMember {
  /** For messages: `citadel at istiod:15012`. */
  readonly name: string
  readonly client: CAClient
}

export interface FailoverOptions {
  readonly members: readonly FailoverMember[]
  readonly clock: Clock
  readonly log: Pick<PluginLog, 'warn' | 'info'>
  /** Failures in a row after which a CA is left alone. */
  readonly failures: number
  /** How long at first, and at most, milliseconds. */
  readonly openMs: number
  readonly maxOpenMs: number
}

/** What another CA may do better. A CA that refuses means it: asking the next one would go around its policy. */
const FAILS_OVER: ReadonlySet<CAErrorCode> = new Set(['unavailable', 'timeout', 'rate-limited', 'bad-response'])

interface Member extends FailoverMember {
  readonly breaker: CircuitBreaker
  /** The roots that it told last. */
  roots: readonly string[] | undefined
}

/**
 * Closing it closes its members. It has `trustBundle` and `subscribe` if all members have them: a list that lacks the
 * roots of one would say that they are given up.
 */
export class FailoverClient implements CAClient {
  readonly trustBundle?: NonNullable<CAClient['trustBundle']>
  readonly subscribe?: NonNullable<CAClient['subscribe']>
  readonly #members: readonly Member[]

  constructor({ members, clock, log, ...breaker }: FailoverOptions) {
    this.#members = members.map(member => ({
      ...member,
      roots: undefined,
      breaker: new CircuitBreaker({
        ...breaker,
        clock,
        onChange: state =>
          state === 'open'
            ? log.warn(`The CA ${member.name} fails: it is left alone for a while, and the next one is asked`)
            : log.info(`The CA ${member.name} answers again`),
      }),
    }))
    if (members.every(({ client }) => client.trustBundle)) this.trustBundle = options => this.#allRoots(options)
    if (members.every(({ client }) => client.subscribe)) this.subscribe = listener => this.#subscribeToAll(listener)
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const failures: string[] = []
    let last: CAError | undefined
    for (const member of this.#askable()) {
      try {
        return await this.#issueBy(member, request)
      } catch (error) {
        request.signal.throwIfAborted()
        if (!(error instanceof CAError) || !FAILS_OVER.has(error.code)) throw error
        failures.push(`${member.name}: ${error.message}`)
        last = error
      }
    }
    if (last && failures.length === 1 && this.#members.length === 1) throw last
    throw new CAError(
      last?.code ?? 'unavailable',
      `No CA of the list issues for ${request.identity}. ${failures.join(' ')}`,
      {
        cause: last,
        ...(last?.retryAfterMs !== undefined && { retryAfterMs: last.retryAfterMs }),
      },
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.map(({ client }) => client[Symbol.asyncDispose]()))
  }

  /** Those whose breakers let a call through, one by one; the first of all if none does: somebody has to be asked. */
  *#askable(): Generator<Member> {
    let asked = false
    for (const member of this.#members) {
      if (!member.breaker.admits()) continue
      asked = true
      yield member
    }
    const [first] = this.#members
    if (!asked && first) yield first
  }

  async #issueBy(member: Member, request: CertificateRequest): Promise<IssuedCertificate> {
    try {
      const issued = await member.client.issue(request)
      member.breaker.succeeded()
      return await this.#withRoots(member, issued, request.signal)
    } catch (error) {
      if (request.signal.aborted) member.breaker.abandoned()
      else if (error instanceof CAError && FAILS_OVER.has(error.code)) member.breaker.failed()
      else member.breaker.succeeded()
      throw error
    }
  }

  /** Where there is no common list, a certificate brings the roots of its own CA along. */
  async #withRoots(member: Member, issued: IssuedCertificate, signal: AbortSignal): Promise<IssuedCertificate> {
    if (this.trustBundle || issued.roots || !member.client.trustBundle) return issued
    return { ...issued, roots: await rootsOf(member, signal) }
  }

  /** A CA that does not answer keeps the roots that it told last; one that never did has none in use yet. */
  async #allRoots({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const told = await Promise.allSettled(this.#members.map(member => rootsOf(member, signal)))
    signal.throwIfAborted()
    const failed = told.find(one => one.status === 'rejected')
    if (failed && told.every(one => one.status === 'rejected')) throw failed.reason
    return [
      ...new Set(
        told.flatMap((one, index) => (one.status === 'fulfilled' ? one.value : (this.#members[index]?.roots ?? []))),
      ),
    ]
  }

  #subscribeToAll(listener: (change: CAChange) => void): Disposable {
    const subscriptions = new DisposableStack()
    for (const { client } of this.#members) {
      const subscription = client.subscribe?.(listener)
      if (subscription) subscriptions.use(subscription)
    }
    return subscriptions
  }
}

async function rootsOf(member: Member, signal: AbortSignal): Promise<readonly string[]> {
  const roots = await member.client.trustBundle?.({ signal })
  member.roots = roots
  return roots ?? []
}

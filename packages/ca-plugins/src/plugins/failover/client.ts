/** Presents several CAs of one trust domain as one: the first of them that answers issues. */
import {
  type CAChange,
  type CAClient,
  CAError,
  type CAErrorCode,
  type CAMember,
  type CertificateRequest,
  type IssuedCertificate,
  type RequestTicket,
  untilAborted,
  withDeadline,
} from '@livery/core/plugin'
import { reasonOf } from '../../answers/reason-of.ts'
import { Closable } from '../../transport/closable.ts'
import { CircuitBreaker } from './circuit-breaker.ts'
import type { FailoverOptions } from './failover-options.ts'
import { FailoverRoots } from './failover-roots.ts'

/**
 * The errors after which the next CA is asked. The list reports the first in this order: a CA without room works.
 * A refusal is final: asking the next CA would go around the policy of the first.
 */
const FAILS_OVER: readonly CAErrorCode[] = ['rate-limited', 'bad-response', 'timeout', 'unavailable']

interface Guarded {
  readonly member: CAMember
  readonly breaker: CircuitBreaker
}

interface Failure {
  readonly member: CAMember
  readonly error: CAError
}

/** Closing it ends its open calls; its members stay open. */
export class FailoverClient implements CAClient {
  readonly #options: FailoverOptions
  readonly #guarded: readonly Guarded[]
  readonly #roots: FailoverRoots
  readonly #closing = new Closable('the CAs of the list')

  constructor(options: FailoverOptions) {
    const { members, clock } = options
    this.#options = options
    this.#guarded = members.map(member => ({
      member,
      breaker: new CircuitBreaker(clock, options, change => options.onBreaker(member, change)),
    }))
    this.#roots = new FailoverRoots(options)
  }

  async issue(request: CertificateRequest): Promise<IssuedCertificate> {
    const signal = this.#closing.until(request.signal)
    const failures: Failure[] = []
    const keptUntil = this.#othersKeptUntil(request)
    for (const guarded of keptUntil === undefined ? this.#askable() : this.#firstIfAskable()) {
      try {
        return await this.#issueBy(guarded, { ...request, signal })
      } catch (error) {
        signal.throwIfAborted()
        const failure = { member: guarded.member, error: asCAError(error, guarded.member) }
        if (!FAILS_OVER.includes(failure.error.code)) throw afterFailures(failure.error, failures)
        failures.push(failure)
      }
    }
    throw keptUntil === undefined ? this.#nobody(request, failures) : this.#putOff(request, failures, keptUntil)
  }

  get isListPartial(): boolean {
    return this.#options.members.some(member => member.client.trustBundle && !this.#roots.knows(member))
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    const either = this.#closing.until(signal)
    return await untilAborted(this.#roots.all(either), either)
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#closing.signal.throwIfAborted()
    return this.#roots.subscribe(listener)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#roots[Symbol.dispose]()
  }

  /** The end of a renewal's wait for the first CA, milliseconds since the epoch; `undefined` if the others may be asked. */
  #othersKeptUntil({ replaces }: CertificateRequest): number | undefined {
    if (!replaces) return undefined
    const { afterMs = Number.POSITIVE_INFINITY, clock } = this.#options
    const now = clock.now()
    // The clock may have been set back meanwhile.
    const since = Math.min(replaces.failingSince ?? now, now)
    const until = since + Math.min(afterMs, (replaces.notAfter - since) / 2)
    return until > now ? until : undefined
  }

  /** Leaves out the breakers of other CAs, which would count the question as a call. */
  #firstIfAskable(): readonly Guarded[] {
    return this.#guarded.slice(0, 1).filter(({ breaker }) => breaker.admits())
  }

  /** The CAs whose breakers let a call through; if none does, one that did not ask for a pause: some CA has to be asked. */
  *#askable(): Generator<Guarded> {
    let asked = false
    for (const guarded of this.#guarded) {
      if (!guarded.breaker.admits()) continue
      asked = true
      yield guarded
    }
    const other = this.#guarded.find(({ breaker }) => breaker.restMs === 0)
    if (!asked && other) yield other
  }

  async #issueBy({ member, breaker }: Guarded, request: CertificateRequest): Promise<IssuedCertificate> {
    try {
      const issued = await this.#ask(member, request)
      breaker.succeeded()
      if (member !== this.#options.members[0]) this.#options.onTakenOver(member)
      return await this.#withRoots(member, issued, request.signal)
    } catch (error) {
      this.#judge({ member, breaker }, error, request.signal)
      throw error
    }
  }

  /** Records what the failure says about the CA. */
  #judge({ member, breaker }: Guarded, error: unknown, { aborted, reason }: AbortSignal): void {
    const { code, retryAfterMs, local, message } = asCAError(aborted ? reason : error, member)
    const isDeadline = code === 'timeout' && !member.capabilities.asynchronous
    if (local || (aborted && !isDeadline)) breaker.abandoned()
    else if (!FAILS_OVER.includes(code)) breaker.succeeded()
    else if (code === 'rate-limited' && retryAfterMs !== undefined) breaker.refused(retryAfterMs, message)
    else breaker.failed(message)
  }

  async #ask(member: CAMember, request: CertificateRequest): Promise<IssuedCertificate> {
    const { clock, timeoutMs } = this.#options
    // No call waits for a member's connection: another CA may answer sooner.
    const { connectWithinMs: _, ...rest } = request
    const { ticket, signal } = request
    const own = { ...rest, ...(ticket && { ticket: memberTicket(member.name, ticket) }) }
    if (member.capabilities.asynchronous) return await untilAborted(member.client.issue(own), signal)
    const text = `it gave no answer within ${timeoutMs} ms. Check that it runs.`
    const error = () => new CAError('timeout', text)
    return await withDeadline({ clock, ms: timeoutMs, error, signal }, ending =>
      member.client.issue({ ...own, signal: ending }),
    )
  }

  /** A CA may issue its first certificate before its roots are known. */
  async #withRoots(member: CAMember, issued: IssuedCertificate, signal: AbortSignal): Promise<IssuedCertificate> {
    if (issued.rootsFor === 'identity') return issued
    if (!member.client.trustBundle) {
      const accepted = () => {
        issued.accepted?.()
        this.#roots.learn(member, issued.roots ?? [])
      }
      return { ...issued, accepted }
    }
    if (issued.roots || this.#roots.knows(member)) return issued
    return { ...issued, roots: await this.#roots.ask(member, signal) }
  }

  #putOff({ identity }: CertificateRequest, [failure]: readonly Failure[], until: number): CAError {
    const isResting = (this.#guarded[0]?.breaker.restMs ?? 0) > 0
    const { code, local } = failure?.error ?? { code: isResting ? 'rate-limited' : 'unavailable', local: false }
    const reason = failure ? reasonsOf([failure]) : 'It is left alone for now, since it has failed.'
    const text = `The first CA of the list does not issue for ${identity}. The next one is asked from ${new Date(until).toISOString()} on: enough is left of the certificate in use. ${reason}`
    return new CAError(code, text, { cause: failure?.error, local, deferred: until })
  }

  #nobody({ identity }: CertificateRequest, failures: readonly Failure[]): CAError {
    const rests = this.#guarded.map(({ breaker }) => breaker.restMs).filter(ms => ms > 0)
    const soonest = Math.min(...rests, ...failures.flatMap(({ error }) => error.retryAfterMs ?? []))
    const reported = FAILS_OVER.map(code => failures.find(({ error }) => error.code === code)?.error).find(Boolean)
    const reasons = failures.length === 0 ? 'Each has asked to be left alone for now.' : reasonsOf(failures)
    return new CAError(reported?.code ?? 'rate-limited', `No CA of the list issues for ${identity}. ${reasons}`, {
      cause: reported,
      // A CA that gets no calls meanwhile may be down.
      local: failures.length === this.#guarded.length && failures.every(({ error }) => error.local),
      ...(Number.isFinite(soonest) && { retryAfterMs: soonest }),
    })
  }
}

/** A plugin may throw anything. */
function asCAError(error: unknown, member: CAMember): CAError {
  if (error instanceof CAError) return error
  return new CAError('unavailable', `Its plugin failed: ${reasonOf(error)}. Fix the plugin of ${member.name}.`, {
    cause: error,
  })
}

/** A refusal by a CA that was only asked because others failed. */
function afterFailures(refusal: CAError, failures: readonly Failure[]): CAError {
  if (failures.length === 0) return refusal
  const { code, message, retryable, retryAfterMs } = refusal
  return new CAError(code, `${message} It was asked because others failed. ${reasonsOf(failures)}`, {
    cause: refusal,
    retryable,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  })
}

function reasonsOf(failures: readonly Failure[]): string {
  return failures.map(({ member, error }) => `${member.name}: ${error.message}`).join(' ')
}

/** The one ticket of a request as the CA with this name sees it: each finds only its own note. A later CA's note replaces an earlier one's. */
function memberTicket(member: string, ticket: RequestTicket): RequestTicket {
  const mark = `${member}\n`
  const own = (): string | undefined => (ticket.stored?.startsWith(mark) ? ticket.stored.slice(mark.length) : undefined)
  return {
    get stored() {
      return own()
    },
    store: async value => {
      if (value !== undefined) await ticket.store(mark + value)
      else if (own() !== undefined) await ticket.store(undefined)
    },
  }
}

/** A client of a CA whose calls are spans: it hands on the trace, and shows how long the key and the CA take. */
import { type CAClient, CAError, type CertificateRequest, type IssuedCertificate, scrub } from '@livery/core'
import type { CertificateTraces } from './certificate-traces.ts'
import { type Span, traceparentOf } from './spans.ts'

/** `name` is the CA's in the spans: `citadel at istiod:15012`. */
export function tracedCAClient(ca: CAClient, name: string, traces: CertificateTraces): CAClient {
  const { issueBatch, trustBundle, federatedBundles, subscribe } = ca
  return {
    issue: async request => {
      const call = new TracedCall(request, name, traces)
      try {
        return call.answered(await ca.issue(call.request))
      } catch (error) {
        call.failed(error)
        throw error
      }
    },
    ...(issueBatch && { issueBatch: requests => issueAll(ca, requests, name, traces) }),
    ...(trustBundle && { trustBundle: options => trustBundle.call(ca, options) }),
    ...(federatedBundles && { federatedBundles: options => federatedBundles.call(ca, options) }),
    get isListPartial() {
      return ca.isListPartial ?? false
    },
    ...(subscribe && { subscribe: listener => subscribe.call(ca, listener) }),
    [Symbol.asyncDispose]: () => ca[Symbol.asyncDispose](),
  }
}

async function issueAll(
  ca: CAClient,
  requests: readonly CertificateRequest[],
  name: string,
  traces: CertificateTraces,
): Promise<readonly (IssuedCertificate | CAError)[]> {
  const calls = requests.map(request => new TracedCall(request, name, traces))
  try {
    const answers = (await ca.issueBatch?.(calls.map(({ request }) => request))) ?? []
    for (const [index, call] of calls.entries()) {
      const answer = answers[index]
      if (answer && !(answer instanceof Error)) call.answered(answer)
      else call.failed(answer)
    }
    return answers
  } catch (error) {
    for (const call of calls) call.failed(error)
    throw error
  }
}

/** One call for one certificate. A call within another one, as of a CA of a list, is a span below that. */
class TracedCall {
  readonly request: CertificateRequest
  readonly #traces: CertificateTraces
  readonly #span: Span | undefined
  readonly #isInner: boolean

  constructor(request: CertificateRequest, name: string, traces: CertificateTraces) {
    const { identity, traceparent } = request
    this.#traces = traces
    this.#isInner = traceparent !== undefined
    const parent = traceparent === undefined ? traces.parentOf(identity) : traces.spans.parentOf(traceparent)
    this.#span =
      parent &&
      traces.spans.start('issue', {
        parent,
        isCall: true,
        attributes: { 'livery.identity': identity, 'livery.ca': name },
      })
    this.request = this.#span ? this.#withTrace(request, this.#span) : request
  }

  answered(issued: IssuedCertificate): IssuedCertificate {
    this.#traces.spans.end(this.#span)
    if (this.#span && !this.#isInner) this.#traces.answered(this.request.identity)
    return issued
  }

  /** The text of an error that is not a `CAError` may be anything. */
  failed(error: unknown): void {
    if (!this.#span) return
    if (error instanceof CAError) this.#traces.spans.fail(this.#span, error.code, scrub(error))
    else this.#traces.spans.fail(this.#span, 'other', 'the call failed, or was given up')
  }

  #withTrace(request: CertificateRequest, span: Span): CertificateRequest {
    const traceparent = traceparentOf(span)
    if (this.#isInner) return { ...request, traceparent }
    let csr: ReturnType<CertificateRequest['csr']> | undefined
    return {
      ...request,
      traceparent,
      csr: () => {
        csr ??= this.#withKey(request, span)
        return csr
      },
    }
  }

  async #withKey(request: CertificateRequest, parent: Span): ReturnType<CertificateRequest['csr']> {
    const { spans } = this.#traces
    const span = spans.start('key', { parent })
    try {
      const csr = await request.csr()
      spans.end(span)
      return csr
    } catch (error) {
      spans.fail(span, 'other', 'no key was made')
      throw error
    }
  }
}

/** The description of a plugin that is broken on purpose, and ways to break the reference. */
import {
  type CACapabilities,
  type CAClient,
  type CAContext,
  CAError,
  type CertificateRequest,
  type IssuedCertificate,
} from '@livery/core/plugin'
import type { ConformanceGroup } from '../src/conformance/kit/conformance-case.ts'
import type { FakeCA } from '../src/conformance/kit/fake-ca.ts'
import type { FakeCAAnswer } from '../src/conformance/kit/fake-ca-answer.ts'
import { ReferenceClient } from './reference-plugin.ts'

type Refused = Extract<FakeCAAnswer, { kind: 'refused' }>
type NewClient = new (ca: FakeCA, context: CAContext) => CAClient

export interface BrokenPlugin {
  /** As in "a plugin that …". */
  readonly that: string
  /** The groups that must go red; no other may. */
  readonly fails: readonly ConformanceGroup[]
  readonly client: NewClient
  /** Its calls hang where they should not. */
  readonly hangs?: true
  /** Capabilities in place of the reference's. */
  readonly claims?: Partial<CACapabilities>
}

/** The reference with a changed answer. */
export function answering(
  change: (issued: IssuedCertificate, request: CertificateRequest, ca: FakeCA) => IssuedCertificate,
): NewClient {
  return class extends ReferenceClient {
    protected override async toIssued(answer: FakeCAAnswer, request: CertificateRequest): Promise<IssuedCertificate> {
      return change(await super.toIssued(answer, request), request, this.ca)
    }
  }
}

/** The reference with a changed error for a refusal. */
export function refusing(change: (answer: Refused) => Error): NewClient {
  return class extends ReferenceClient {
    protected override refusal(answer: Refused): Error {
      return change(answer)
    }
  }
}

export function newError(
  code: CAError['code'],
  { retryAfterMs }: { readonly retryAfterMs?: number } = {},
  message = 'The CA refused.',
): CAError {
  return new CAError(code, message, retryAfterMs === undefined ? {} : { retryAfterMs })
}

/** A CertificateSigningRequest as the API server returns it: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/certificate-signing-request-v1/ */

export interface SigningRequest {
  readonly name: string
  readonly uid: string
  readonly resourceVersion: string
  /** The value of `spec.request`: PEM in base64. */
  readonly request: string
  readonly signerName: string
  readonly outcome: Outcome
}

/** Its state. */
type Outcome =
  | { readonly kind: 'pending' }
  /** Nobody has signed it yet. */
  | { readonly kind: 'approved' }
  /** PEM. */
  | { readonly kind: 'issued'; readonly certificates: string }
  /** Denied by an approver. */
  | { readonly kind: 'denied'; readonly reason: string }
  /** Failed at the signer. */
  | { readonly kind: 'failed'; readonly reason: string }

/** `undefined` for any other object. */
export function readSigningRequest(value: unknown): SigningRequest | undefined {
  const { metadata, spec, status } = Object(value)
  const { name, uid, resourceVersion } = Object(metadata)
  const { request, signerName } = Object(spec)
  if (![name, uid, resourceVersion, request, signerName].every(text => typeof text === 'string')) return undefined
  return { name, uid, resourceVersion, request, signerName, outcome: outcomeOf(Object(status)) }
}

/** Denied and failed are final, whatever else is there. */
function outcomeOf({
  conditions,
  certificate,
}: {
  readonly conditions?: unknown
  readonly certificate?: unknown
}): Outcome {
  const denied = reasonOf(conditions, 'Denied')
  if (denied !== undefined) return { kind: 'denied', reason: denied }
  const failed = reasonOf(conditions, 'Failed')
  if (failed !== undefined) return { kind: 'failed', reason: failed }
  if (reasonOf(conditions, 'Approved') === undefined) return { kind: 'pending' }
  if (typeof certificate !== 'string' || certificate === '') return { kind: 'approved' }
  return { kind: 'issued', certificates: Buffer.from(certificate, 'base64').toString() }
}

/** Reason and message of the condition, if it holds. */
function reasonOf(conditions: unknown, type: string): string | undefined {
  if (!Array.isArray(conditions)) return undefined
  const condition = conditions.map(Object).find(each => each.type === type && each.status !== 'False')
  return condition && [condition.reason, condition.message].filter(text => typeof text === 'string' && text).join(': ')
}

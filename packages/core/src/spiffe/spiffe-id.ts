/** SPIFFE IDs: https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md */

/** A valid SPIFFE ID with a path, such as `spiffe://cluster.local/ns/default/sa/web`. */
export type SpiffeId = `spiffe://${string}/${string}`

const TRUST_DOMAIN = /^[a-z0-9._-]{1,255}$/
const PATH_SEGMENT = /^[A-Za-z0-9._-]+$/
/** SPIFFE-ID section 2.3: "Implementations MUST support URIs up to 2048 bytes". */
const MAX_LENGTH = 2048
/** Matches most SPIFFE IDs in one step: the parts of others are checked one by one for the fault. */
const USUAL = /^spiffe:\/\/[a-z0-9._-]{1,255}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$/

/**
 * Why `text` is not a SPIFFE ID with a path, or `undefined` if it is one. Nothing is normalised: a variant spelling is
 * refused, since two spellings of one identity are how impersonation starts.
 */
export function spiffeIdProblem(text: string): string | undefined {
  if (text.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} bytes`
  if (USUAL.test(text)) return undefined
  if (!text.startsWith('spiffe://')) return 'does not start with "spiffe://"'
  const [trustDomain = '', ...segments] = text.slice('spiffe://'.length).split('/')
  const problem = trustDomainProblem(trustDomain)
  if (problem) return `has a trust domain that ${problem}`
  if (segments.length === 0) return 'has no path'
  for (const segment of segments) {
    if (segment === '') return 'has an empty path segment or a trailing slash'
    if (segment === '.' || segment === '..') return 'has a relative path segment'
    if (!PATH_SEGMENT.test(segment))
      return 'has a character that SPIFFE IDs do not allow (letters, digits, ".", "_", "-")'
  }
  return undefined
}

/** Why `text` is not a trust domain name, or `undefined` if it is one. */
export function trustDomainProblem(text: string): string | undefined {
  if (text === '') return 'is empty'
  if (text.length > 255) return 'is longer than 255 bytes'
  if (!TRUST_DOMAIN.test(text)) return 'has a character other than lower-case letters, digits, ".", "_" and "-"'
  return undefined
}

export function isSpiffeId(text: string): text is SpiffeId {
  return spiffeIdProblem(text) === undefined
}

/** Parses a SPIFFE ID; throws a `TypeError` that names the value and the reason. */
export function parseSpiffeId(text: string): SpiffeId {
  if (isSpiffeId(text)) return text
  throw new TypeError(`Cannot parse SPIFFE ID ${JSON.stringify(text.slice(0, 256))}: it ${spiffeIdProblem(text)}`)
}

/** The trust domain of an identity: `cluster.local` of `spiffe://cluster.local/ns/default/sa/web`. */
export function trustDomainOf(identity: SpiffeId): string {
  return identity.slice('spiffe://'.length, identity.indexOf('/', 'spiffe://'.length))
}

/** Patterns of SPIFFE IDs: `*` is one character or more of a path segment, `**` is the rest of the path. */
import { isSpiffeId, type SpiffeId, trustDomainProblem } from './spiffe-id.ts'

/** A SPIFFE ID, or a pattern such as `spiffe://cluster.local/ns/prod/sa/web-*`. */
export type SpiffePattern =
  | { readonly kind: 'literal'; readonly identity: SpiffeId }
  | { readonly kind: 'pattern'; readonly expression: RegExp }

const SCHEME = 'spiffe://'
const SEGMENT = /^[A-Za-z0-9._*-]+$/

/** Why `text` is not a pattern, after "it …", or `undefined` if it is one. */
export function spiffePatternProblem(text: string): string | undefined {
  if (!text.startsWith(SCHEME)) return 'does not start with "spiffe://"'
  const [trustDomain = '', ...segments] = text.slice(SCHEME.length).split('/')
  const problem = trustDomainProblem(trustDomain)
  if (problem !== undefined) return `has a trust domain that ${problem}`
  if (segments.length === 0) return 'has no path, so it matches nothing'
  if (segments.slice(0, -1).includes('**')) return 'has ** before its last segment'
  const bad = segments.find(segment => !canMatch(segment))
  return bad === undefined ? undefined : `has the path segment ${JSON.stringify(bad)}, which matches nothing`
}

/** Reads a pattern; throws a `TypeError` that names the value and the reason. */
export function parseSpiffePattern(text: string): SpiffePattern {
  if (isSpiffeId(text)) return { kind: 'literal', identity: text }
  const problem = spiffePatternProblem(text)
  if (problem !== undefined)
    throw new TypeError(`Cannot use ${JSON.stringify(text.slice(0, 256))} as a pattern: it ${problem}`)
  const segments = text.replaceAll('.', '\\.').split('/')
  const expression = segments.map((segment, index) => (segment === '**' ? '.+' : segmentExpression(segment, index)))
  return { kind: 'pattern', expression: new RegExp(`^${expression.join('/')}$`) }
}

export function matchesSpiffePattern(pattern: SpiffePattern, identity: SpiffeId): boolean {
  return pattern.kind === 'literal' ? pattern.identity === identity : pattern.expression.test(identity)
}

function canMatch(segment: string): boolean {
  if (segment === '**') return true
  return SEGMENT.test(segment) && !segment.includes('**') && segment !== '.' && segment !== '..'
}

/**
 * Callers choose the names, so a match takes time linear in their length, however many `*` the segment has. The shortest
 * text for a `*` is never worse for the rest; so each `*` but the last takes it in a look-ahead, without backtracking.
 */
function segmentExpression(segment: string, index: number): string {
  const [first = '', ...parts] = segment.split('*')
  const last = parts.pop()
  if (last === undefined) return first
  const middle = parts.map((part, star) => {
    const group = `s${index}_${star}`
    return `(?=(?<${group}>[^/]+?${part}))\\k<${group}>`
  })
  return `${first}${middle.join('')}[^/]+${last}`
}

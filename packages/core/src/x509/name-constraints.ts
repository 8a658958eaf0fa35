/**
 * Name constraints (RFC 5280, section 4.2.1.10) on URI, DNS names and IP addresses. Verifiers differ at the edges: a name
 * counts as permitted only where all of Go, BoringSSL and OpenSSL permit it, and as excluded where one of them excludes it.
 */
import { type Element, expectTag, notDer, readElements, readInside, SEQUENCE } from './der.ts'
import { endsInNumber, hostOf, isHost } from './host-name.ts'

/** Tags of GeneralName (RFC 5280, section 4.2.1.6). */
export const EMAIL = 0x81
export const DNS = 0x82
export const URI = 0x86
export const IP = 0x87

type Kind = typeof EMAIL | typeof DNS | typeof URI | typeof IP

/** A name or the base of a subtree; text in lower case. */
type Name =
  | { readonly kind: typeof URI /** Absent if it cannot be read. */; readonly host: string | undefined }
  | { readonly kind: typeof DNS; readonly host: string }
  | { readonly kind: typeof IP; readonly bytes: Buffer }
  | { readonly kind: typeof EMAIL; readonly isMailbox: boolean }

export interface NameConstraints {
  readonly permitted: readonly Name[]
  readonly excluded: readonly Name[]
}

/** Where names are taken from. */
export interface Named {
  /** Of the subject, each as type and value. */
  readonly attributes: readonly (readonly Element[])[]
  /** subjectAltName. */
  readonly names: readonly Element[]
}

/** The names that one search can still compare. */
export interface Budget {
  comparisons: number
}

/** Throws a `RangeError` where a subtree is malformed, or of a kind that Go does not evaluate either. */
export function readNameConstraints(der: Buffer): NameConstraints {
  const lists = readInside(der)
  const [permitted, excluded] = [0xa0, 0xa1].map(tag => readSubtrees(lists.filter(list => list.tag === tag)))
  const inOrder = lists.every(({ tag }, index) => tag === 0xa1 || (tag === 0xa0 && index === 0))
  if (lists.length === 0 || !inOrder || !permitted || !excluded) throw notDer('name constraints say nothing')
  return { permitted, excluded }
}

function readSubtrees([list, ...more]: readonly Element[]): readonly Name[] {
  if (!list) return []
  const subtrees = readElements(list.contents)
  if (more.length > 0 || subtrees.length === 0) throw notDer('a list of name constraints is empty or repeated')
  return subtrees.map(subtree => {
    const [base, ...range] = readElements(expectTag(subtree, SEQUENCE).contents)
    // RFC 5280: minimum is 0 and maximum absent.
    const isWhole = range.every(({ tag, contents }) => tag === 0x80 && contents.equals(Buffer.of(0)))
    const name = base && isWhole && range.length < 2 ? readBase(base) : undefined
    if (!name) throw notDer('a name constraint is malformed or of a kind not supported')
    return name
  })
}

function readBase({ tag, contents }: Element): Name | undefined {
  const text = contents.toString('latin1').toLowerCase()
  const isDomain = isHost(text.replace(/^\./, ''))
  switch (tag) {
    // Empty, it is every URI to some verifiers and none to others.
    case URI:
      return isDomain && !endsInNumber(text) ? { kind: URI, host: text } : undefined
    case DNS:
      return isDomain || text === '' ? { kind: DNS, host: text } : undefined
    case IP:
      return isNetwork(contents) ? { kind: IP, bytes: contents } : undefined
    case EMAIL:
      return { kind: EMAIL, isMailbox: false }
    default:
      return undefined
  }
}

/**
 * Whether `named` may be below. Every name that is read costs one of `budget`, and so does each comparison; they are paid
 * for before the first is read, and when the budget is used up nothing is allowed.
 */
export function allows(constraints: NameConstraints, named: Named, isLeaf: boolean, budget: Budget): boolean {
  const most = named.names.length + named.attributes.length
  const cost = most * (1 + constraints.permitted.length + constraints.excluded.length)
  if (cost > budget.comparisons) {
    budget.comparisons = 0
    return false
  }
  budget.comparisons -= cost
  return namesOf(named, isLeaf).every(name => {
    // Where there are constraints of any kind, Go refuses names that it cannot parse.
    if (!isWellFormed(name)) return false
    const permitted = constraints.permitted.filter(({ kind }) => kind === name.kind)
    const excluded = constraints.excluded.filter(({ kind }) => kind === name.kind)
    if (permitted.length === 0 && excluded.length === 0) return true
    return (
      isComparable(name) &&
      (permitted.length === 0 || permitted.some(base => covers(base, name, 'permitted'))) &&
      !excluded.some(base => covers(base, name, 'excluded'))
    )
  })
}

function namesOf({ attributes, names }: Named, isLeaf: boolean): readonly Name[] {
  const found = names.flatMap(element => readName(element) ?? [])
  const values = (id: Buffer) => attributes.flatMap(([type, value]) => (type?.contents.equals(id) && value) || [])
  // RFC 5280, section 4.2.1.10: a mail address in the subject counts.
  if (values(EMAIL_ADDRESS).length > 0) found.push({ kind: EMAIL, isMailbox: true })
  // OpenSSL takes a leaf's common name for a DNS name where there is none.
  if (isLeaf && !found.some(({ kind }) => kind === DNS)) {
    const texts = values(COMMON_NAME).map(({ contents }) => contents.toString('latin1').toLowerCase())
    const hosts = texts.filter(host => host.includes('.') && isHost(host))
    found.push(...hosts.map(host => ({ kind: DNS, host }) as const))
  }
  return found
}

/** 1.2.840.113549.1.9.1 */
const EMAIL_ADDRESS = Buffer.from('2a864886f70d010901', 'hex')
/** 2.5.4.3 */
const COMMON_NAME = Buffer.from('550403', 'hex')

/** Names of other kinds are bound by no constraint that is followed. */
function readName({ tag, contents }: Element): Name | undefined {
  const text = contents.toString('latin1')
  switch (tag as Kind) {
    case URI:
      return { kind: URI, host: hostOf(text)?.toLowerCase() }
    case DNS:
      return { kind: DNS, host: text.toLowerCase() }
    case IP:
      return { kind: IP, bytes: contents }
    case EMAIL:
      return { kind: EMAIL, isMailbox: text.split('@').length === 2 && text.split('@').every(isHost) }
    default:
      return undefined
  }
}

/** Mail addresses are not compared, and a URI of an IP address matches nothing (RFC 5280): Go refuses it. */
function isComparable(name: Name): boolean {
  switch (name.kind) {
    case URI:
      return name.host !== undefined && !endsInNumber(name.host)
    default:
      return name.kind !== EMAIL
  }
}

function isWellFormed(name: Name): boolean {
  if (name.kind === EMAIL) return name.isMailbox
  return name.kind !== DNS || isHost(name.host.replace(/^\*\./, ''))
}

function covers(base: Name, name: Name, direction: 'permitted' | 'excluded'): boolean {
  if (base.kind === IP && name.kind === IP) return isInNetwork(name.bytes, base.bytes)
  if (!('host' in base && 'host' in name) || base.host === undefined || name.host === undefined) return false
  // RFC 5280 and OpenSSL: this host; Go: its subdomains as well.
  if (base.kind === URI && direction === 'permitted' && !base.host.startsWith('.')) return name.host === base.host
  const isWildcard = base.kind === DNS && direction === 'excluded' && name.host.startsWith('*.')
  return isWithin(name.host, base.host) || (isWildcard && isWithin(base.host, name.host.slice(2)))
}

/** Whether `host` is `base` or below it; only below it if `base` begins with a dot. */
function isWithin(host: string, base: string): boolean {
  if (!host.endsWith(base) || base === '') return base === ''
  if (base.startsWith('.')) return host.length > base.length
  return host.length === base.length || host.at(-base.length - 1) === '.'
}

/** Address and mask, where the mask is a prefix. */
function isNetwork(bytes: Buffer): boolean {
  if (bytes.length !== 8 && bytes.length !== 32) return false
  const mask = [...bytes.subarray(bytes.length / 2)].map(byte => byte.toString(2).padStart(8, '0')).join('')
  return /^1*0*$/.test(mask)
}

function isInNetwork(address: Buffer, network: Buffer): boolean {
  const half = network.length / 2
  if (address.length !== half) return false
  return address.every((byte, index) => {
    const mask = network[half + index] ?? 0
    return (byte & mask) === ((network[index] ?? 0) & mask)
  })
}

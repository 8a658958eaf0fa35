/** Reads the extensions of a certificate (RFC 5280, section 4.2): node:crypto reports few of them. */
import {
  BIT_STRING,
  BOOLEAN,
  type Element,
  expectTag,
  INTEGER,
  notDer,
  OBJECT_IDENTIFIER,
  OCTET_STRING,
  readBits,
  readBoolean,
  readElements,
  readInside,
  readUnsigned,
  SEQUENCE,
} from './der.ts'
import { hostOf, isHost } from './host-name.ts'
import { DNS, EMAIL, IP, type NameConstraints, readNameConstraints, URI } from './name-constraints.ts'

export interface Extensions {
  readonly isCa: boolean
  /** How many certificates are allowed between this issuer and a leaf; absent: any number. */
  readonly pathLength: number | undefined
  readonly keyUsage: KeyUsage | undefined
  /** Whether an extended key usage, if there is one, names server and client authentication. */
  readonly servesTls: boolean
  /** subjectAltName. */
  readonly names: readonly Element[]
  /** Whether every peer can read the names, where this is an issuer. */
  readonly hasIssuerNames: boolean
  readonly subjectKey: Buffer | undefined
  readonly authorityKey: AuthorityKey | undefined
  readonly nameConstraints: NameConstraints | undefined
}

export interface KeyUsage {
  readonly digitalSignature: boolean
  readonly keyCertSign: boolean
  readonly cRLSign: boolean
}

export interface AuthorityKey {
  readonly key: Buffer | undefined
  /** Name, DER. */
  readonly issuer: Buffer | undefined
  readonly serial: Buffer | undefined
}

interface Extension {
  readonly critical: boolean
  readonly value: Buffer
}

/** Identifiers of extensions, hex: those of 2.5.29 by their last arc. */
const ID = {
  subjectKey: '551d0e',
  keyUsage: '551d0f',
  names: '551d11',
  basicConstraints: '551d13',
  nameConstraints: '551d1e',
  policies: '551d20',
  policyMappings: '551d21',
  authorityKey: '551d23',
  policyConstraints: '551d24',
  extendedKeyUsage: '551d25',
  inhibitAnyPolicy: '551d36',
  netscapeType: '6086480186f8420101',
  proxy: '2b0601050507010e',
  addresses: '2b06010505070107',
  systems: '2b06010505070108',
} as const

/**
 * The extensions that are allowed to be critical: those that are checked here and that BoringSSL knows. Without policy
 * constraints on the path, policies never refuse one (RFC 5280, section 6.1).
 */
const KNOWN: ReadonlySet<string> = new Set([
  ID.basicConstraints,
  ID.keyUsage,
  ID.extendedKeyUsage,
  ID.names,
  ID.nameConstraints,
  ID.policies,
])

/**
 * Extensions that peers evaluate and this program does not, critical or not, and nothing that an agent meets has: proxy certificates
 * (RFC 3820), addresses (RFC 3779), constraints on policies and their mappings.
 */
const REFUSED: ReadonlySet<string> = new Set([
  ID.proxy,
  ID.addresses,
  ID.systems,
  ID.policyMappings,
  ID.policyConstraints,
  ID.inhibitAnyPolicy,
])

/** Reads the contents of [3]; throws a `RangeError` where one is malformed, repeated, critical and unknown, or refused. */
export function readExtensions(list: readonly Element[]): Extensions {
  const extensions = new Map<string, Extension>()
  for (const element of list) {
    const [id, ...rest] = readElements(expectTag(element, SEQUENCE).contents)
    const name = expectTag(id, OBJECT_IDENTIFIER).contents.toString('hex')
    const extension = readExtension(rest)
    if (extensions.has(name) || REFUSED.has(name) || (extension.critical && !KNOWN.has(name))) {
      throw notDer('an extension is repeated or not supported')
    }
    extensions.set(name, extension)
  }
  return readKnown(extensions)
}

function readExtension(fields: readonly Element[]): Extension {
  const [first, second] = fields
  const flag = first?.tag === BOOLEAN ? first : undefined
  const value = expectTag(flag ? second : first, OCTET_STRING).contents
  if (fields.length !== (flag ? 2 : 1)) throw notDer('an extension has too many fields')
  return { critical: flag !== undefined && readBoolean(flag), value }
}

function readKnown(extensions: ReadonlyMap<string, Extension>): Extensions {
  const read = <T>(id: string, reader: (value: Buffer) => T): T | undefined => {
    const extension = extensions.get(id)
    return extension && reader(extension.value)
  }
  read(ID.policies, checkPolicies)
  const names = read(ID.names, readNames) ?? []
  const constraints = read(ID.basicConstraints, readBasicConstraints) ?? { isCa: false, pathLength: undefined }
  if (!constraints.isCa) read(ID.netscapeType, checkNetscapeType)
  return {
    ...constraints,
    keyUsage: read(ID.keyUsage, readKeyUsage),
    servesTls: read(ID.extendedKeyUsage, readsTls) ?? true,
    names,
    hasIssuerNames: areIssuerNames(names, extensions.get(ID.names)?.critical ?? false),
    subjectKey: read(ID.subjectKey, value => readOne(value, OCTET_STRING).contents),
    authorityKey: read(ID.authorityKey, readAuthorityKey),
    nameConstraints: read(ID.nameConstraints, readNameConstraints),
  }
}

function readOne(value: Buffer, tag: number): Element {
  const [element, ...more] = readElements(value)
  if (more.length > 0) throw notDer('bytes follow the value')
  return expectTag(element, tag)
}

/** RFC 5280, section 4.2.1.9: a path length only with the CA bit. BoringSSL refuses the certificate otherwise. */
function readBasicConstraints(value: Buffer): Pick<Extensions, 'isCa' | 'pathLength'> {
  const fields = readInside(value)
  const flag = fields[0]?.tag === BOOLEAN ? fields[0] : undefined
  const limit = fields[flag ? 1 : 0]
  const isCa = flag !== undefined && readBoolean(flag)
  const pathLength = limit && readUnsigned(expectTag(limit, INTEGER))
  const isWhole = fields.length === (flag ? 1 : 0) + (limit ? 1 : 0)
  if (!isWhole || (pathLength !== undefined && (!isCa || pathLength > 255))) throw notDer('basic constraints are wrong')
  return { isCa, pathLength }
}

function readKeyUsage(value: Buffer): KeyUsage {
  const bits = readBits(readOne(value, BIT_STRING))
  if (bits.every(byte => byte === 0)) throw notDer('a key usage names none')
  const first = bits[0] ?? 0
  return {
    digitalSignature: (first & 0x80) !== 0,
    keyCertSign: (first & 0x04) !== 0,
    cRLSign: (first & 0x02) !== 0,
  }
}

/** 1.3.6.1.5.5.7.3.1 and .2 */
const TLS_USAGES = ['2b06010505070301', '2b06010505070302']

/** "Any" alone does not do: BoringSSL and OpenSSL refuse it. */
function readsTls(value: Buffer): boolean {
  const usages = new Set(readInside(value).map(usage => expectTag(usage, OBJECT_IDENTIFIER).contents.toString('hex')))
  return TLS_USAGES.every(usage => usages.has(usage))
}

function readNames(value: Buffer): readonly Element[] {
  const names = readInside(value)
  for (const { tag, contents } of names) {
    const isText = tag === EMAIL || tag === DNS || tag === URI
    if (isText && contents.some(byte => byte > 0x7f)) throw notDer('a name is not ASCII')
    if (tag === OTHER) otherValue(contents)
    if (tag === IP && contents.length !== 4 && contents.length !== 16) throw notDer('an address has a wrong length')
  }
  return names
}

/** Go refuses a URI that it cannot parse, and names that are critical and all of kinds that it does not read. */
function areIssuerNames(names: readonly Element[], critical: boolean): boolean {
  const isKnown = names.some(({ tag }) => tag === EMAIL || tag === DNS || tag === URI || tag === IP)
  if (critical && !isKnown) return false
  return names.every(({ tag, contents }) => {
    const text = contents.toString('latin1')
    if (tag === URI) return hostOf(text) !== undefined
    if (tag === DNS) return isHost(text.replace(/^(\*\.)+/, ''))
    return tag !== EMAIL || isPlain(contents)
  })
}

function readAuthorityKey(value: Buffer): AuthorityKey {
  const fields = readInside(value)
  const contentsOf = (tag: number) => fields.find(field => field.tag === tag)?.contents
  const names = readElements(contentsOf(0xa1) ?? Buffer.alloc(0))
  return {
    key: contentsOf(0x80),
    issuer: names.find(({ tag }) => tag === DIRECTORY)?.contents,
    serial: contentsOf(0x82),
  }
}

/** RFC 5280, section 4.2.1.4: none occurs twice. Go and BoringSSL refuse the certificate otherwise. */
function checkPolicies(value: Buffer): void {
  const policies = readInside(value).map(policy => {
    const [id] = readElements(expectTag(policy, SEQUENCE).contents)
    return expectTag(id, OBJECT_IDENTIFIER).contents.toString('hex')
  })
  if (policies.length === 0 || new Set(policies).size < policies.length) throw notDer('a policy is repeated')
}

/** OpenSSL takes only leaves for TLS whose old Netscape type, if there is one, says client (bit 0) and server (1). */
function checkNetscapeType(value: Buffer): void {
  const first = readBits(readOne(value, BIT_STRING)).at(0) ?? 0
  if ((first & 0xc0) !== 0xc0) throw notDer('a Netscape type is not of TLS')
}

const DIRECTORY = 0xa4
const OTHER = 0xa0

/**
 * The URI names; `undefined` if any name could be taken for more than one where names are written as a list. Nothing that
 * stands beside a SPIFFE ID needs that; a directory name is a list itself.
 */
export function urisOf(names: readonly Element[]): readonly string[] | undefined {
  const isSafe = names.every(({ tag, contents }) => {
    if (tag === OTHER) return isPlain(otherValue(contents))
    return tag === URI || tag === DNS || tag === EMAIL ? isPlain(contents) : tag !== DIRECTORY
  })
  return isSafe ? names.flatMap(({ tag, contents }) => (tag === URI ? contents.toString('latin1') : [])) : undefined
}

/** Contents of the value of an OtherName (RFC 5280, section 4.2.1.6). */
function otherValue(otherName: Buffer): Buffer {
  const [id, explicit, ...more] = readElements(otherName)
  const [value, ...others] = readElements(expectTag(explicit, OTHER).contents)
  if (!value || more.length > 0 || others.length > 0) throw notDer('an OtherName has one value')
  expectTag(id, OBJECT_IDENTIFIER)
  return value.contents
}

function isPlain(text: Buffer): boolean {
  return /^[ -~]*$/.test(text.toString('latin1')) && !/["\\,'\n]/.test(text.toString('latin1'))
}

/** A certificate authority in the process: for trying Livery out, for tests, and behind `livery ca`. Not for production. */
import { X509Certificate } from 'node:crypto'
import {
  type CAChange,
  CAError,
  isSpiffeId,
  type SpiffeId,
  trustDomainOf,
  trustDomainProblem,
} from '@livery/core/plugin'
import { caError } from '../../answers/ca-error.ts'
import { AuthorityDirectory } from './authority-directory.ts'
import {
  type AuthorityPolicy,
  type AuthorityState,
  type CertificateAuthorityOptions,
  createAnchor,
  EARLIEST,
  findAnchor,
  firstState,
  intermediatesOf,
  issuerOf,
} from './authority-state.ts'
import { boundSerial, isBoundTo } from './bound-serial.ts'
import {
  createServerCertificate,
  createSvid,
  exportPrivateKey,
  generateKeys,
  type Issuer,
  publicKeyOf,
  type Validity,
} from './certificate-profiles.ts'
import { verifiedRequest } from './certificate-request.ts'
import type { ServerNames } from './server-names.ts'

export interface SigningRequest {
  /** The authenticated caller: the certificate's one URI. URIs in the CSR are ignored. */
  readonly identity: SpiffeId
  /** Whether the caller may have a DNS name that the CSR asks for. Default: it may have none, and a CSR with one is refused. */
  readonly mayHave?: (dnsName: string) => boolean
  /** PKCS#10, DER. */
  readonly csr: Uint8Array
  /** Counted from now, greater than zero. The certificate ends earlier if its issuer does. */
  readonly ttlSeconds: number
  /** The grant that let the caller in, such as the digest of a token: see {@link CertificateAuthority.isIssuedUnder}. */
  readonly grant?: string | undefined
}

export interface SignedCertificate {
  /** PEM, one certificate an element: the leaf and, where there are any, the intermediates. */
  readonly chain: readonly string[]
  /** The root that `chain` leads to. */
  readonly root: string
}

export interface IssuedServerCertificate {
  /** PEM: the leaf and, where there are any, the intermediates. */
  readonly chain: string
  /** PKCS#8 PEM. */
  readonly privateKey: string
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

/** A root as {@link CertificateAuthority.roots} lists it. */
export interface AuthorityRoot {
  /** SHA-256 of the certificate, in hexadecimal. */
  readonly id: string
  readonly pem: string
  /** Whether new certificates are signed under it. */
  readonly signing: boolean
  /** Milliseconds since the epoch. */
  readonly notAfter: number
}

const DAY = 86_400

/**
 * Signs X509-SVIDs for one trust domain. Its root rotates in three steps: {@link addRoot}, {@link switchTo},
 * {@link removeRoot}. Holds no timer and no handle.
 */
export class CertificateAuthority {
  /** Whether `open` made it, with a root that nobody knows yet. */
  readonly isNew: boolean
  readonly #options: AuthorityPolicy
  readonly #directory: AuthorityDirectory | undefined
  readonly #listeners = new Set<(change: CAChange) => void>()
  #state: AuthorityState
  #lastChange: Promise<unknown> = Promise.resolve()

  private constructor(
    options: AuthorityPolicy,
    directory: AuthorityDirectory | undefined,
    state: AuthorityState,
    isNew = true,
  ) {
    this.isNew = isNew
    this.#options = options
    this.#directory = directory
    this.#state = state
  }

  /**
   * Opens the CA in `directory`, or makes a new one. Throws a `TypeError` for an option it cannot use, and an
   * `Error` if the directory is not whole, belongs to another trust domain, or somebody else could have read its key or
   * changed it; nothing is overwritten then.
   */
  static async open(options: CertificateAuthorityOptions): Promise<CertificateAuthority> {
    const { directory: path, warn = () => {}, ...rest } = options
    const filled = {
      keyType: 'ecdsa-p256' as const,
      intermediate: false,
      upperIntermediate: false,
      maxTtlSeconds: 90 * DAY,
      backdateSeconds: 120,
      rootTtlSeconds: 3650 * DAY,
      ...rest,
    }
    checkOptions(filled)
    if (path === undefined) return new CertificateAuthority(filled, undefined, await firstState(filled))
    const directory = await AuthorityDirectory.open(path, warn)
    const present = await directory.load()
    const state = present ?? (await directory.create(await firstState(filled)))
    if (state.trustDomain !== filled.trustDomain)
      throw new Error(
        `Cannot use the CA in ${path}: it belongs to trust domain ${state.trustDomain}, not ${filled.trustDomain}. Name another directory, or remove this one to start a new CA with a new root.`,
      )
    return new CertificateAuthority(filled, directory, state, present === undefined)
  }

  get trustDomain(): string {
    return this.#options.trustDomain
  }

  /** Rejects with a {@link CAError}: `denied`, `ttl-too-long`, `invalid-csr`, or `unavailable` once its root has expired. */
  async sign({ identity, csr, ttlSeconds, grant, mayHave = () => false }: SigningRequest): Promise<SignedCertificate> {
    if (trustDomainOf(identity) !== this.trustDomain)
      throw caError('denied', {
        action: `issue for ${identity}`,
        reason: `this CA belongs to trust domain ${this.trustDomain}`,
        remedy: 'Ask for an identity of it',
      })
    const { signing } = this.#state
    const issuer = issuerOf(signing)
    const validity = this.#validity(issuer, ttlSeconds)
    const serial = grant === undefined ? undefined : boundSerial(issuer, grant)
    const request = await verifiedRequest(csr)
    const refused = request.dnsNames.find(name => !mayHave(name))
    if (refused !== undefined)
      throw caError('denied', {
        action: `issue for ${identity}`,
        reason: `its caller may not have the DNS name ${refused}`,
        remedy: 'Add it to dnsNames of its grant, or ask without it',
      })
    const leaf = await createSvid(issuer, identity, request, validity, serial)
    return { chain: [leaf, ...intermediatesOf(signing)], root: signing.root.pem }
  }

  /** Issues for the server in front of this CA. A lifetime beyond the maximum is cut to it. */
  async issueServerCertificate(names: ServerNames, ttlSeconds: number): Promise<IssuedServerCertificate> {
    const { keyType, maxTtlSeconds } = this.#options
    const { signing } = this.#state
    const issuer = issuerOf(signing)
    const validity = this.#validity(issuer, Math.min(ttlSeconds, maxTtlSeconds))
    const keys = await generateKeys(keyType)
    const leaf = await createServerCertificate(issuer, names, await publicKeyOf(keys), validity)
    return {
      chain: [leaf, ...intermediatesOf(signing)].join(''),
      privateKey: exportPrivateKey(keys.privateKey),
      notAfter: validity.notAfter,
    }
  }

  /** The identity of the certificate `der`, or `undefined` if this CA did not issue it, it is out of its dates, or names no identity. */
  identify(der: Uint8Array): SpiffeId | undefined {
    const certificate = new X509Certificate(der)
    const now = this.#options.clock.now()
    if (now < certificate.validFromDate.getTime() || now > certificate.validToDate.getTime()) return undefined
    const issued = this.#issuersOf(certificate).length > 0
    const [first = ''] = (certificate.subjectAltName ?? '').split(', ')
    const name = first.startsWith('URI:') ? first.slice('URI:'.length) : ''
    return issued && isSpiffeId(name) ? name : undefined
  }

  /** Whether the certificate `der` of this CA was signed with this `grant`, also before a restart. */
  isIssuedUnder(der: Uint8Array, grant: string): boolean {
    const certificate = new X509Certificate(der)
    return this.#issuersOf(certificate).some(issuer => isBoundTo(issuer, certificate.serialNumber, grant))
  }

  /** Every root, the newest last; a client trusts them all. */
  trustBundle(): readonly string[] {
    return this.#state.anchors.map(anchor => anchor.root.pem)
  }

  roots(): readonly AuthorityRoot[] {
    return this.#state.anchors.map(({ id, root }) => ({
      id,
      pem: root.pem,
      signing: id === this.#state.signing.id,
      notAfter: root.certificate.notAfter.getTime(),
    }))
  }

  /** Step one of a rotation: a second root that clients can learn to trust. Nothing is signed under it yet. */
  async addRoot(): Promise<string> {
    const anchor = await createAnchor(this.#options)
    await this.#change(state => ({ ...state, anchors: [...state.anchors, anchor] }))
    this.#notify({ kind: 'roots' })
    return anchor.id
  }

  /** Step two: certificates are signed under the root `id` from now on. Listeners learn that certificates should be renewed. */
  async switchTo(id: string): Promise<void> {
    await this.#change(state => ({ ...state, signing: findAnchor(state, id) }))
    this.#notify({ kind: 'certificates' })
  }

  /** Step three: the root `id` is dropped; clients with the new bundle no longer accept certificates under it. */
  async removeRoot(id: string): Promise<void> {
    await this.#change(state => {
      if (findAnchor(state, id) === state.signing)
        throw new TypeError(
          `Cannot remove root ${id}: new certificates are signed under it. Switch to another root first.`,
        )
      return { ...state, anchors: state.anchors.filter(anchor => anchor.id !== id) }
    })
    this.#notify({ kind: 'roots' })
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    // Wrapped, so that the same function subscribed twice is two subscriptions.
    const subscription = (change: CAChange) => listener(change)
    this.#listeners.add(subscription)
    return { [Symbol.dispose]: () => void this.#listeners.delete(subscription) }
  }

  #issuersOf(certificate: X509Certificate): readonly Issuer[] {
    return this.#state.anchors.map(issuerOf).filter(({ pem }) => {
      const issuer = new X509Certificate(pem)
      return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
    })
  }

  /** Makes one change after the other; memory has only what the directory has. */
  #change(change: (state: AuthorityState) => AuthorityState): Promise<void> {
    const result = this.#lastChange.then(async () => {
      const next = change(this.#state)
      await this.#directory?.save(next)
      this.#state = next
    })
    this.#lastChange = result.catch(() => {})
    return result
  }

  #notify(change: CAChange): void {
    for (const listener of [...this.#listeners]) listener(change)
  }

  #validity(issuer: Issuer, ttlSeconds: number): Validity {
    if (!(ttlSeconds > 0))
      throw new TypeError(`Cannot issue a certificate for ${ttlSeconds} seconds: ttlSeconds must be greater than 0`)
    const { maxTtlSeconds, backdateSeconds, clock } = this.#options
    const action = 'issue a certificate'
    if (ttlSeconds > maxTtlSeconds)
      throw caError('ttl-too-long', {
        action,
        reason: `the ttl of ${ttlSeconds} s is longer than this CA signs, ${maxTtlSeconds} s`,
        remedy: 'Lower ttl',
      })
    const now = clock.now()
    const end = issuer.certificate.notAfter.getTime()
    if (now >= end)
      throw caError('unavailable', {
        action,
        reason: `the CA's own has expired at ${new Date(end).toISOString()}`,
        remedy: 'Add a root and switch to it',
        retryable: false,
      })
    if (now < EARLIEST)
      throw caError('unavailable', {
        action,
        reason: `the clock says ${new Date(now).toISOString()}`,
        remedy: 'Set the clock',
      })
    return { notBefore: now - backdateSeconds * 1000, notAfter: Math.min(now + ttlSeconds * 1000, end) }
  }
}

function checkOptions(options: AuthorityPolicy): void {
  const problem = trustDomainProblem(options.trustDomain)
  if (problem) throw new TypeError(`Cannot open the CA: trustDomain ${JSON.stringify(options.trustDomain)} ${problem}`)
  for (const name of ['maxTtlSeconds', 'rootTtlSeconds'] as const)
    if (!(options[name] >= 1)) throw new TypeError(`Cannot open the CA: ${name} ${options[name]} is less than 1`)
  if (!(options.backdateSeconds >= 0))
    throw new TypeError(`Cannot open the CA: backdateSeconds ${options.backdateSeconds} is less than 0`)
}

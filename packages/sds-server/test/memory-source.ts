/** A SecretSource that holds real certificates in memory, issued by core's test CA when a test says so. */
import assert from 'node:assert/strict'
import { createHash, X509Certificate } from 'node:crypto'
import {
  ALL_BUNDLES,
  AllBundlesSecret,
  CertificateSecret,
  type FileSecretName,
  plainKeyVault,
  SealedKey,
  type SecretItem,
  type SecretName,
  TrustBundleSecret,
} from '@livery/core'
import type { FileSecrets } from '@livery/core/file-secrets'
import type { SpiffeId } from '@livery/core/plugin'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { ledgerName, type SecretSource } from '../src/protocol/secret-source.ts'

type Listener = (item: SecretItem | undefined) => void

/** Knows an identity from `add` on, and has a secret for it from `issue` on. */
export class MemorySource implements SecretSource {
  readonly trustDomain = 'cluster.local'
  readonly clock = new FakeClock()
  /** The real ones, where a test sets them. */
  files: FileSecrets | undefined
  /** Subscriptions that were not disposed. */
  subscribers = 0
  readonly #ca: TestCA
  readonly #keys = new TestKeyGenerator()
  readonly #items = new Map<string, SecretItem | undefined>()
  readonly #listeners = new Map<string, Set<Listener>>()

  private constructor(ca: TestCA) {
    this.#ca = ca
  }

  /** A source with a trust bundle, and a certificate for each of `identities`. */
  static async create(...identities: readonly SpiffeId[]): Promise<MemorySource> {
    const source = new MemorySource(await TestCA.create(new FakeClock()))
    source.setBundle()
    for (const identity of identities) await source.issue(identity)
    return source
  }

  get roots(): readonly string[] {
    return this.#ca.roots
  }

  knows(name: SecretName): boolean {
    return this.#items.has(ledgerName(name))
  }

  trustDomains(): Iterable<string> {
    return [this.trustDomain]
  }

  *identities(): Iterable<SpiffeId> {
    for (const [key] of this.#items) if (isIdentityKey(key)) yield key
  }

  add(identity: SpiffeId): void {
    if (!this.#items.has(identity)) this.#items.set(identity, undefined)
  }

  current(name: SecretName): SecretItem | undefined {
    if (isOfOthers(name)) return this.files?.current(name)
    return name.kind === 'all-bundles' ? this.#allBundles() : this.#items.get(ledgerName(name))
  }

  #allBundles(): AllBundlesSecret | undefined {
    const bundles = [...this.#items.values()].flatMap(item =>
      item?.kind === 'bundle' ? [{ trustDomain: item.name.slice('spiffe://'.length), bundle: item }] : [],
    )
    const version = createHash('sha256')
      .update(bundles.map(({ bundle }) => bundle.version).join())
      .digest('hex')
    const own = bundles.find(({ trustDomain }) => trustDomain === this.trustDomain)?.bundle
    return bundles.length === 0 ? undefined : new AllBundlesSecret({ version, own, bundles })
  }

  request(identity: SpiffeId): void {
    if (!this.#items.has(identity)) this.add(identity)
  }

  watch(name: SecretName, listener: Listener): Disposable {
    if (isOfOthers(name)) {
      assert.ok(this.files)
      return this.files.subscribe(name, listener)
    }
    const key = ledgerName(name)
    const listeners = this.#listeners.get(key) ?? new Set()
    this.#listeners.set(key, listeners)
    listeners.add(listener)
    this.subscribers++
    return {
      [Symbol.dispose]: () => {
        if (listeners.delete(listener)) this.subscribers--
      },
    }
  }

  /** Issues a new certificate and notifies the subscribers. */
  async issue(identity: SpiffeId): Promise<CertificateSecret> {
    const generated = await this.#keys.generate({ type: 'ecdsa-p256', identity, format: 'pkcs8' })
    const der = Buffer.from(generated.csrDer)
    const pem = `-----BEGIN CERTIFICATE REQUEST-----\n${der.toString('base64')}\n-----END CERTIFICATE REQUEST-----\n`
    const { chain } = await this.#ca.sign({
      identity,
      ttlSeconds: 3_600,
      signal: new AbortController().signal,
      csr: async () => ({ der, pem }),
    })
    const leaf = new X509Certificate(chain[0] ?? '')
    const item = new CertificateSecret({
      name: identity,
      version: createHash('sha256').update(leaf.raw).digest('hex'),
      certificateChain: chain.join(''),
      privateKey: new SealedKey(plainKeyVault, generated.privateKeyPem),
      notBefore: leaf.validFromDate.getTime(),
      notAfter: leaf.validToDate.getTime(),
      serialNumber: leaf.serialNumber,
    })
    this.set(identity, item)
    return item
  }

  /** Removes or replaces the secret of a name, and notifies the subscribers. */
  set(key: string, item: SecretItem | undefined): void {
    const before = this.#items.get(key)
    this.#items.set(key, item)
    for (const listener of this.#listeners.get(key) ?? []) listener(item)
    if (item?.kind === 'bundle') {
      for (const listener of this.#listeners.get(ALL_BUNDLES) ?? []) listener(this.#allBundles())
    }
    // As core does it: what was encoded before is all that is left of the old key.
    if (before?.kind === 'certificate' && before !== item) before.wipe()
  }

  /** Forgets it, and notifies the subscribers. */
  forget(identity: SpiffeId): void {
    this.#items.delete(identity)
    for (const listener of this.#listeners.get(identity) ?? []) listener(undefined)
  }

  async rotateRoot(): Promise<void> {
    await this.#ca.addRoot()
    this.setBundle()
  }

  /** Sets the bundle of the CA's roots; `padding` bytes of comment or `copies` of them make it big. */
  setBundle(
    trustDomain = this.trustDomain,
    options: {
      readonly version?: string
      readonly padding?: number
      readonly copies?: number
      readonly crl?: Uint8Array
    } = {},
  ): void {
    const pem = this.#ca.roots.join('').repeat(options.copies ?? 1) + '#'.repeat(options.padding ?? 0)
    const version = options.version ?? createHash('sha256').update(pem).digest('hex')
    const crl = options.crl && { crl: options.crl }
    const item = new TrustBundleSecret({
      name: `spiffe://${trustDomain}`,
      version,
      trustedCa: Buffer.from(pem),
      ...crl,
    })
    this.set(`spiffe://${trustDomain}`, item)
  }
}

function isOfOthers(name: SecretName): name is FileSecretName {
  return name.kind !== 'identity' && name.kind !== 'bundle' && name.kind !== 'all-bundles'
}

function isIdentityKey(key: string): key is SpiffeId {
  return key.slice('spiffe://'.length).includes('/')
}

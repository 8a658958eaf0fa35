/** The `embedded` plugin: a {@link CAClient} around a certificate authority in the same process. */
import {
  type CAChange,
  type CAClient,
  type CertificateRequest,
  defineCAPlugin,
  type IssuedCertificate,
  KEY_TYPES,
  untilAborted,
} from '@livery/core'
import { Closable } from '../../transport/closable.ts'
import { CertificateAuthority } from './certificate-authority.ts'

/** A CA of the agent's own, which is told not to be for production. */
export const embedded = defineCAPlugin({
  apiVersion: 1,
  name: 'embedded',
  capabilities: { roots: 'push', ttl: 'honoured', san: 'caller', keyTypes: KEY_TYPES },
  options: {
    directory: {
      type: 'path',
      description: 'where the CA is kept, so that a restart has the same root; in memory without it',
    },
    keyType: {
      type: 'string',
      choices: KEY_TYPES,
      default: 'ecdsa-p256',
      description: 'key type of the roots and intermediates made from now on',
    },
    intermediate: {
      type: 'boolean',
      default: false,
      description: 'whether roots made from now on sign through an intermediate',
    },
    maxTtl: {
      type: 'duration',
      min: '1s',
      max: '3650d',
      default: '90d',
      description: 'a longer lifetime is refused',
    },
  },
  async create({ clock, trustDomain, log }, { maxTtl, ...options }) {
    const warn = (message: string) => log.warn(message)
    const authority = await CertificateAuthority.open({
      ...options,
      clock,
      trustDomain,
      maxTtlSeconds: maxTtl / 1000,
      warn,
    })
    const place = options.directory === undefined ? 'in memory' : `in ${options.directory}`
    const root = authority.isNew ? 'has made a new root' : 'has the root that it had before'
    log.warn(`The embedded CA ${root}, and keeps its key ${place}: it is for trying things out, not for production.`)
    return new EmbeddedClient(authority)
  },
})

/** Any number of clients may share one authority; closing one leaves the authority as it is. */
export class EmbeddedClient implements CAClient {
  readonly authority: CertificateAuthority
  readonly #closing = new Closable('the embedded CA')
  readonly #subscriptions = new DisposableStack()

  constructor(authority: CertificateAuthority) {
    this.authority = authority
  }

  async issue({ identity, ttlSeconds, signal, csr }: CertificateRequest): Promise<IssuedCertificate> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    const { der } = await untilAborted(csr(), signal)
    const { chain } = await untilAborted(this.authority.sign({ identity, csr: der, ttlSeconds }), signal)
    return { chain, roots: this.authority.trustBundle() }
  }

  async trustBundle({ signal }: { readonly signal: AbortSignal }): Promise<readonly string[]> {
    signal.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    return this.authority.trustBundle()
  }

  subscribe(listener: (change: CAChange) => void): Disposable {
    this.#closing.signal.throwIfAborted()
    return this.#subscriptions.use(this.authority.subscribe(listener))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.close()
    this.#subscriptions.dispose()
  }
}

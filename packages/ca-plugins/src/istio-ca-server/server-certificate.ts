/** The CA server's own TLS certificate, issued by the CA behind it and renewed before it expires. */
import { ServerCredentials } from '@grpc/grpc-js'
import type { Clock } from '@livery/core/plugin'
import { reasonOf } from '../answers/reason-of.ts'
import type { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import type { ServerNames } from '../plugins/embedded/server-names.ts'

interface ServerCertificateOptions {
  readonly authority: CertificateAuthority
  readonly clock: Clock
  readonly names: ServerNames
  readonly ttlSeconds: number
  warn(message: string): void
}

type TlsContext = NonNullable<ReturnType<ServerCredentials['_getSecureContextOptions']>>

interface IssuedContext {
  readonly context: TlsContext
  readonly notAfter: number
}

const RETRY_MS = 60_000

/**
 * Renews at half of the lifetime, and when the CA's roots or its signing key change; open connections keep the
 * old one.
 */
export class ServerCertificate implements Disposable {
  readonly credentials: ServerCredentials
  readonly #renewable: RenewableCredentials
  readonly #options: ServerCertificateOptions
  readonly #subscription: Disposable
  #renewal: Disposable | undefined
  /** The number of the newest renewal: an older one that ends later is dropped. */
  #turn = 0

  private constructor(options: ServerCertificateOptions, { context, notAfter }: IssuedContext) {
    this.#options = options
    this.#renewable = new RenewableCredentials(context)
    this.credentials = this.#renewable
    this.#subscription = options.authority.subscribe(() => void this.#renew())
    this.#schedule(halfway(options.clock, notAfter))
  }

  static async issue(options: ServerCertificateOptions): Promise<ServerCertificate> {
    return new ServerCertificate(options, await issueContext(options))
  }

  [Symbol.dispose](): void {
    this.#turn++
    this.#renewal?.[Symbol.dispose]()
    this.#subscription[Symbol.dispose]()
  }

  #schedule(time: number): void {
    this.#renewal?.[Symbol.dispose]()
    this.#renewal = this.#options.clock.at(time, () => void this.#renew())
  }

  async #renew(): Promise<void> {
    const turn = ++this.#turn
    try {
      const { context, notAfter } = await issueContext(this.#options)
      if (turn !== this.#turn) return
      this.#renewable.renew(context)
      this.#schedule(halfway(this.#options.clock, notAfter))
    } catch (error) {
      if (turn !== this.#turn) return
      const reason = reasonOf(error)
      this.#options.warn(`Cannot renew the CA server's own certificate, next try in a minute: ${reason}`)
      this.#schedule(this.#options.clock.now() + RETRY_MS)
    }
  }
}

class RenewableCredentials extends ServerCredentials {
  constructor(context: TlsContext) {
    // A client certificate is optional: most callers come with a token.
    super({ requestCert: true, rejectUnauthorized: false }, context)
  }

  renew(context: TlsContext): void {
    this.updateSecureContextOptions(context)
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other
  }
}

async function issueContext({ authority, names, ttlSeconds }: ServerCertificateOptions): Promise<IssuedContext> {
  const { chain, privateKey, notAfter } = await authority.issueServerCertificate(names, ttlSeconds)
  return {
    context: { cert: chain, key: privateKey, ca: [...authority.trustBundle()], minVersion: 'TLSv1.2' },
    notAfter,
  }
}

/** The renewal is at least a second ahead, so that a CA at the end of its life is not asked without pause. */
function halfway(clock: Clock, notAfter: number): number {
  const now = clock.now()
  return now + Math.max(1000, (notAfter - now) / 2)
}

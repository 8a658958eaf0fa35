/** The sources under `trust`: anchors, the roots of other trust domains, revocation lists. */
import { type RootSource, TrustFile, WatchedFiles } from '@livery/core'
import { type Clock, splitCertificates } from '@livery/core/plugin'
import type { Config } from '../config/load.ts'
import type { Federated } from '../config/trust-schema.ts'
import type { Logger } from '../observe/logger.ts'
import { isPem } from '../schema/values.ts'
import { BundleEndpoint } from './bundle-endpoint.ts'

/** How long one poll of an endpoint may take. */
const TIMEOUT_MS = 30_000

/** Returns the same source for the same setting, so that a reload touches only what has changed. */
export class RootSources implements Disposable {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #watched: WatchedFiles
  #sources: ReadonlyMap<string, RootSource> = new Map()
  #crls: readonly RootSource[] = []

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
    this.#watched = new WatchedFiles(clock, err =>
      logger.warn({ err }, 'files with roots cannot be watched: they are looked at once a minute'),
    )
  }

  /** Resolves when every file was read; the source of an unreadable one reports it. Never rejects. */
  async of({ trustDomain, trust }: Pick<Config, 'trustDomain' | 'trust'>): Promise<readonly RootSource[]> {
    const before = this.#sources
    const sources = new Map<string, RootSource>()
    const add = async (setting: object, make: () => Promise<RootSource>) => {
      const key = JSON.stringify(setting)
      sources.set(key, before.get(key) ?? (await make()))
    }
    for (const [index, anchor] of trust.anchors.entries())
      await add({ trustDomain, anchor }, () => this.#anchor(anchor, trustDomain, `trust.anchors[${index}]`))
    for (const [name, { crl: _, ...federated }] of Object.entries(trust.federated))
      await add({ name, ...federated }, () => this.#federated(name, federated))
    this.#sources = sources
    return [...sources.values()]
  }

  /** As {@link of}, for the revocation lists. */
  async crls({ trustDomain, trust }: Pick<Config, 'trustDomain' | 'trust'>): Promise<readonly RootSource[]> {
    const files = [[trustDomain, trust.crl] as const, ...federatedCrls(trust)]
    const before = this.#crls
    const crls: RootSource[] = []
    for (const [name, path] of files) {
      if (path === undefined) continue
      const present = before.find(each => each.trustDomain === name && each.name === path)
      crls.push(present ?? (await TrustFile.open(path, name, this.#watched, 'crls')))
    }
    this.#crls = crls
    return crls
  }

  [Symbol.dispose](): void {
    this.#watched[Symbol.dispose]()
  }

  async #anchor(anchor: string, trustDomain: string, name: string): Promise<RootSource> {
    return isPem(anchor) ? inline(anchor, trustDomain, name) : await this.#file(anchor, trustDomain)
  }

  async #federated(trustDomain: string, from: Federated): Promise<RootSource> {
    if (from.url === undefined) return await this.#file(from.file, trustDomain)
    const { url, rootCert } = from
    const clock = this.#clock
    // Most agents ask no endpoint: they load no HTTP client.
    const { HttpsJson } = await import('@livery/ca-plugins/support')
    const { connectionTls } = await import('@livery/ca-plugins/connection')
    const tls = rootCert === undefined ? undefined : connectionTls({ rootCert, log: this.#logger })
    const connect = (address: string) => new HttpsJson({ address, tls, clock, timeoutMs: TIMEOUT_MS })
    return new BundleEndpoint(trustDomain, url, clock, connect)
  }

  #file(path: string, trustDomain: string): Promise<RootSource> {
    return TrustFile.open(path, trustDomain, this.#watched)
  }
}

function federatedCrls({ federated }: Config['trust']): (readonly [trustDomain: string, path: string | undefined])[] {
  return Object.entries(federated).map(([name, { crl }]) => [name, crl])
}

/** PEM in the configuration itself. */
function inline(pem: string, trustDomain: string, name: string): RootSource {
  return {
    trustDomain,
    name,
    open(listener) {
      listener.listed(splitCertificates(pem))
      return { [Symbol.dispose]() {} }
    },
  }
}

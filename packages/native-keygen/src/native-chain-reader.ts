/** Reads chains in Rust, at once or on the addon's threads: `rust/certificate/bridge.rs` is the other side. */
import type { X509Certificate } from 'node:crypto'
import type { ChainFacts, Expectation } from '@livery/core'
import { type ChainPath, MAX_CLOCK_SKEW_MS } from '@livery/core/plugin'
import type { Addon } from './addon.ts'
import type {
  ChainQuestion,
  ChainFacts as NativeFacts,
  ChainPath as NativePath,
  UnreadableChain,
} from './gen/binding.ts'
import { jobQueueOf, partsOf } from './job-queue.ts'

type Root = InstanceType<Addon['TrustAnchor']>
type Facts = ChainFacts | UnreadableChain

/** A chain that travels with others of its turn of the event loop. */
interface Gathered {
  readonly question: ChainQuestion
  readonly resolve: (facts: Facts) => void
  readonly reject: (error: unknown) => void
}

/**
 * The number of chains of a turn that are read on the main thread. Waking another thread costs 80 µs of CPU, so it delays the
 * verdicts on one or two chains of 100 µs each; verdicts on three come as soon, and the main thread has half the work.
 */
const FEW = 2

export class NativeChainReader {
  readonly #addon: Addon
  /** Each is read once; absent within if it cannot be read. */
  readonly #roots = new WeakMap<X509Certificate, { readonly root: Root | undefined }>()
  /** Read at the end of the turn. */
  #gathered: Gathered[] = []

  constructor(addon: Addon) {
    this.#addon = addon
  }

  /** Whether Envoy's library reads it. */
  readsRoot(certificate: X509Certificate): boolean {
    return this.#rootOf(certificate) !== undefined
  }

  /** `chain` is DER, leaf first, as for core's `ReadChain`. */
  read(chain: readonly Buffer[], expected: Expectation): Facts {
    return this.#readAtOnce(this.#questionOf(chain, expected))
  }

  /** Rejects if the addon panics. */
  async readLater(chain: readonly Buffer[], expected: Expectation): Promise<Facts> {
    // A private key is compared at once: it never waits in a queue.
    if ('privateKeyPem' in expected.key) return this.read(chain, expected)
    const key = { publicKeyDer: new Uint8Array(expected.key.publicKeyDer) }
    const question = this.#questionOf(chain, { ...expected, key })
    return await new Promise((resolve, reject) => {
      if (this.#gathered.length === 0) setImmediate(() => this.#readGathered())
      this.#gathered.push({ question, resolve, reject })
    })
  }

  #questionOf(chain: readonly Buffer[], { anchors, key, now }: Expectation): ChainQuestion {
    const roots = anchors.flatMap(certificate => this.#rootOf(certificate) ?? [])
    const [bytes, isPrivate] = 'privateKeyPem' in key ? [key.privateKeyPem, true] : [key.publicKeyDer, false]
    return [[...chain], roots, bytes, isPrivate, now, MAX_CLOCK_SKEW_MS]
  }

  #readAtOnce(question: ChainQuestion): Facts {
    return factsOf(this.#addon.readChain(question))
  }

  #readGathered(): void {
    const gathered = this.#gathered
    this.#gathered = []
    for (const part of partsOf(gathered)) void this.#readTogether(part)
  }

  async #readTogether(gathered: readonly Gathered[]): Promise<void> {
    const all = gathered.length > FEW ? await this.#readOnThreads(gathered) : []
    for (const [index, { question, resolve, reject }] of gathered.entries()) {
      const found = all[index]
      try {
        resolve(found ? factsOf(found) : this.#readAtOnce(question))
      } catch (error) {
        reject(error)
      }
    }
  }

  /** Empty if the system refuses a thread, which is no evidence against the chains or the CA. */
  async #readOnThreads(gathered: readonly Gathered[]): Promise<readonly (NativeFacts | UnreadableChain)[]> {
    const questions = gathered.map(({ question }) => question)
    return await jobQueueOf(this.#addon)
      .readChains(questions)
      .catch(() => [])
  }

  #rootOf(certificate: X509Certificate): Root | undefined {
    const known = this.#roots.get(certificate)
    if (known) return known.root
    const root = readRoot(this.#addon, certificate)
    this.#roots.set(certificate, { root })
    return root
  }
}

function readRoot(addon: Addon, certificate: X509Certificate): Root | undefined {
  try {
    return new addon.TrustAnchor(certificate.raw)
  } catch {
    return undefined
  }
}

function factsOf(found: NativeFacts | UnreadableChain): Facts {
  if ('unreadable' in found) return found
  const [
    notBefore,
    notAfter,
    isCa,
    servesTls,
    signsHandshakes,
    claimsToCertify,
    hasTlsKey,
    serialNumber,
    dnsNames,
    otherNames,
    uris,
    keyMatches,
    path,
    refused,
  ] = found
  return {
    uris,
    dnsNames,
    otherNames,
    keyMatches,
    notBefore,
    notAfter,
    isCa,
    servesTls,
    signsHandshakes,
    claimsToCertify,
    hasTlsKey,
    serialNumber,
    path: path ? pathOf(path) : { refused },
  }
}

function pathOf([chainPem, version, rootFingerprint, notBefore, notAfter, clientRefusal]: NativePath): ChainPath {
  return { chainPem, version, rootFingerprint, notBefore, notAfter, clientRefusal }
}

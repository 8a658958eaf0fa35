/** Reads chains in Rust, at once or on the addon's threads: `rust/certificate/bridge.rs` is the other side. */
import type { X509Certificate } from 'node:crypto'
import { type ChainFacts, type Expectation, MAX_CLOCK_SKEW_MS } from '@livery/core'
import type { Addon } from './addon.ts'
import type { ChainQuestion } from './gen/binding.ts'
import { jobQueueOf } from './job-queue.ts'

type Facts = ChainFacts | { readonly unreadable: number }

interface Root {
  readonly anchor: InstanceType<Addon['TrustAnchor']>
  readonly fingerprint: string
}

/** A question, and the roots that its answer refers to. */
interface Asked {
  readonly question: ChainQuestion
  readonly roots: readonly Root[]
}

/** A chain that goes with others of its turn of the event loop. */
interface Gathered extends Asked {
  readonly resolve: (facts: Facts) => void
  readonly reject: (error: unknown) => void
}

/**
 * So many chains of a turn are read on the main thread. Waking another thread costs 80 µs of CPU, and the verdicts on one or two
 * chains of 100 µs each come later by way of it than without; those on three come as soon, and the main thread has half the work.
 */
const FEW = 2
/** As `read_chain` in Rust wants it: 64 KiB of PEM, and nearly as much in names. */
const PAGE_BYTES = 128 * 1024
/** Where the numbers of a record stand (`Numbers` in Rust). */
const AT = {
  unreadable: 0,
  flags: 1,
  notBefore: 2,
  notAfter: 3,
  pathNotBefore: 4,
  pathNotAfter: 5,
  anchor: 6,
  /** And of the 6 texts after it (`Texts` in Rust). */
  firstLength: 7,
}
const HEAD_BYTES = (AT.firstLength + 6) * Float64Array.BYTES_PER_ELEMENT

export class NativeChainReader {
  readonly #addon: Addon
  readonly #page = new Uint8Array(PAGE_BYTES)
  /** Each is read once. */
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
    return this.#readAtOnce(this.#ask(chain, expected))
  }

  /** Rejects if the addon panics. */
  async readLater(chain: readonly Buffer[], expected: Expectation): Promise<Facts> {
    // A private key is compared at once: it never waits in a queue.
    if ('privateKeyPem' in expected.key) return this.read(chain, expected)
    const key = { publicKeyDer: new Uint8Array(expected.key.publicKeyDer) }
    const asked = this.#ask(chain, { ...expected, key })
    return await new Promise((resolve, reject) => {
      if (this.#gathered.length === 0) setImmediate(() => this.#readGathered())
      this.#gathered.push({ ...asked, resolve, reject })
    })
  }

  #ask(chain: readonly Buffer[], { anchors, key, now }: Expectation): Asked {
    const roots = anchors.flatMap(certificate => this.#rootOf(certificate) ?? [])
    const trusted = roots.map(({ anchor }) => anchor)
    return {
      question: { chain: [...chain], anchors: trusted, ...key, now, maxClockSkew: MAX_CLOCK_SKEW_MS },
      roots,
    }
  }

  #readAtOnce(asked: Asked): Facts {
    this.#addon.readChain(asked.question, this.#page)
    return factsIn(this.#page, asked)
  }

  #readGathered(): void {
    const gathered = this.#gathered
    this.#gathered = []
    if (gathered.length <= FEW) {
      for (const asked of gathered) this.#answer(asked)
      return
    }
    jobQueueOf(this.#addon).readChains(
      gathered.map(asked => ({
        request: asked.question,
        resolve: record => asked.resolve(factsIn(record, asked)),
        // The system may refuse a thread: that says nothing of the chain, nor of the CA.
        reject: () => this.#answer(asked),
      })),
    )
  }

  #answer({ resolve, reject, ...asked }: Gathered): void {
    try {
      resolve(this.#readAtOnce(asked))
    } catch (error) {
      reject(error)
    }
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
    const anchor = new addon.TrustAnchor(certificate.raw)
    return { anchor, fingerprint: anchor.fingerprint }
  } catch {
    return undefined
  }
}

/** The facts in a record. Its parts are read one by one: an iterator would make an object for each. */
function factsIn(record: Uint8Array, asked: Asked): Facts {
  // A copy, since a record need not start at a multiple of 8.
  const numbers = new Float64Array(record.slice(0, HEAD_BYTES).buffer)
  const number = (place: number) => numbers[place] ?? 0
  if (number(AT.unreadable) > 0) return { unreadable: number(AT.unreadable) - 1 }
  const flag = (index: number) => ((number(AT.flags) >> index) & 1) === 1
  const bytes = Buffer.from(record.buffer, record.byteOffset, record.byteLength)
  let end = HEAD_BYTES
  const text = (index: number) => {
    const start = end
    end += number(AT.firstLength + index)
    return bytes.toString('latin1', start, end)
  }
  const serialNumber = text(0)
  const uris = text(1)
  const version = text(2)
  const chainPem = text(3)
  const clientRefusal = text(4)
  const refusal = text(5)
  const path = chainPem
    ? {
        chainPem,
        version,
        rootFingerprint: asked.roots[number(AT.anchor)]?.fingerprint ?? '',
        notBefore: number(AT.pathNotBefore),
        notAfter: number(AT.pathNotAfter),
        ...(clientRefusal && { clientRefusal }),
      }
    : { refused: refusal || undefined }
  return {
    uris: flag(0) ? uris.split('\n').slice(0, -1) : undefined,
    keyMatches: flag(1) ? flag(2) : undefined,
    notBefore: number(AT.notBefore),
    notAfter: number(AT.notAfter),
    isCa: flag(3),
    servesTls: flag(4),
    signsHandshakes: flag(5),
    claimsToCertify: flag(6),
    hasTlsKey: flag(7),
    serialNumber,
    path: () => path,
  }
}

/** Keeps the certificate, key and roots of one identity in a directory, for programs that read files. */
import type { SecretManager, SecretName, WatchedFiles } from '@livery/core'
import { after, backoff, type Clock, type Semaphore, type SpiffeId, scrub } from '@livery/core/plugin'
import type { OutputSetting } from '../config/output-schema.ts'
import type { Logger } from '../observe/logger.ts'
import { reloadProgram } from './program-reload.ts'
import { SetDirectory, type SetFile } from './set-directory.ts'

export interface OutputsParts {
  readonly secrets: Pick<SecretManager, 'current' | 'watch' | 'trustDomain'>
  readonly clock: Clock
  readonly logger: Pick<Logger, 'info' | 'warn' | 'error'>
}

interface IdentityOutputParts extends OutputsParts {
  readonly identity: SpiffeId
  readonly setting: OutputSetting
  readonly watched: WatchedFiles
  /** How many outputs are written at once. */
  readonly writes: Semaphore
  /** How often a set was written, and how often that failed; a failure counts again only if it differs. */
  readonly counts: { written: number; failures: number }
}

const NAMES = { key: 'key.pem', chain: 'cert-chain.pem', roots: 'root-cert.pem', bundle: 'bundle.pem' } as const
/** Certificates are public. */
const PUBLIC_MODE = 0o644
/** Pauses before a failed write is repeated. */
const RETRY = { minMs: 1_000, maxMs: 150_000 } as const
/** Least time between two repairs of a changed set. */
const RESTORE_MS = 1_000
/** How long readers of the previous set have: its key does not stay longer. */
const PREVIOUS_MS = 30_000

export class IdentityOutput implements Disposable {
  readonly #parts: IdentityOutputParts
  readonly #directory: SetDirectory
  readonly #watches = new DisposableStack()
  /** Whether the files have to be written, and whether the program has to be asked to read them. */
  #isStale = true
  #needsReload = false
  #isWorking = false
  #isDisposed = false
  #writtenAt: number | undefined
  #failures = 0
  #lastFailure: string | undefined
  #timer: Disposable | undefined
  #cleaning: Disposable | undefined

  constructor(parts: IdentityOutputParts) {
    this.#parts = parts
    const { setting, secrets, watched } = parts
    this.#directory = new SetDirectory(setting)
    const onChange = () => this.#write()
    for (const name of this.#names()) this.#watches.use(secrets.watch(name, onChange))
    this.#watches.use(watched.add(this.#directory.pathsOf(Object.values(NAMES)), () => void this.#restore()))
    this.#write()
  }

  /** The files stay as they are. */
  [Symbol.dispose](): void {
    this.#isDisposed = true
    this.#watches.dispose()
    this.#timer?.[Symbol.dispose]()
    this.#cleaning?.[Symbol.dispose]()
  }

  #write(): void {
    this.#isStale = true
    void this.#work()
  }

  /** The files were changed, by somebody else or by this output: foreign changes are undone once a second at most. */
  async #restore(): Promise<void> {
    const { clock } = this.#parts
    if (this.#isWorking || this.#isStale || this.#writtenAt === undefined) return
    if ((await this.#directory.isIntact()) || this.#isDisposed || this.#isWorking) return
    if (clock.now() - this.#writtenAt >= RESTORE_MS) this.#write()
    else this.#workAfter(RESTORE_MS, () => this.#write())
  }

  /** One write at a time; a change meanwhile is written after it. */
  async #work(): Promise<void> {
    if (this.#isWorking) return
    this.#isWorking = true
    this.#timer?.[Symbol.dispose]()
    let isDone = false
    while (!isDone && !this.#isDisposed) {
      await this.#parts.writes.run(() => this.#writeAndReload())
      isDone = !this.#isStale || this.#failures > 0 || !this.#isWhole()
    }
    this.#isWorking = false
  }

  async #writeAndReload(): Promise<void> {
    const { setting, clock } = this.#parts
    if (this.#isDisposed) return
    try {
      if (this.#isStale) await this.#writeSet()
      if (this.#needsReload && setting.reload) await reloadProgram(setting.reload, clock)
      this.#needsReload = false
      this.#failures = 0
      this.#lastFailure = undefined
    } catch (error) {
      this.#onFailure(scrub(error))
    }
  }

  async #writeSet(): Promise<void> {
    const files = this.#files()
    if (!files) return
    this.#isStale = false
    try {
      if (await this.#directory.holds(files)) return
      await this.#directory.write(files)
    } catch (error) {
      this.#isStale = true
      throw error
    } finally {
      for (const { content } of files.values()) content.fill(0)
    }
    this.#writtenAt = this.#parts.clock.now()
    this.#needsReload = true
    const { identity, setting, logger, counts } = this.#parts
    counts.written++
    logger.info({ resource: identity, directory: setting.directory }, `written to ${setting.directory}`)
    this.#cleanLater()
  }

  #isWhole(): boolean {
    return this.#names().every(name => this.#parts.secrets.current(name) !== undefined)
  }

  /** The secrets that it writes: the certificate, and the roots. */
  #names(): readonly [SecretName, SecretName] {
    const { identity, secrets } = this.#parts
    const { trustDomain } = secrets
    return [
      { kind: 'identity', identity },
      { kind: 'bundle', trustDomain, identity },
    ]
  }

  /** The files of the served secrets; `undefined` while the set is not whole. */
  #files(): ReadonlyMap<string, SetFile> | undefined {
    const [certificate, roots] = this.#names().map(name => this.#parts.secrets.current(name))
    if (certificate?.kind !== 'certificate' || roots?.kind !== 'bundle') return undefined
    const { mode, bundle } = this.#parts.setting
    const key = certificate.privateKey.open(pem => Buffer.from(pem))
    const chain = certificate.certificateChain
    const trusted = Buffer.from(roots.trustedCa)
    const files = new Map<string, SetFile>([
      [NAMES.key, { content: key, mode }],
      [NAMES.chain, { content: chain, mode: PUBLIC_MODE }],
      [NAMES.roots, { content: trusted, mode: PUBLIC_MODE }],
    ])
    if (bundle) files.set(NAMES.bundle, { content: Buffer.concat([key, chain, trusted]), mode })
    return files
  }

  #onFailure(reason: string): void {
    const { identity, setting, logger, counts } = this.#parts
    const { directory } = setting
    if (this.#isDisposed) return
    if (reason !== this.#lastFailure) {
      counts.failures++
      logger.error({ resource: identity, directory }, `the files in ${directory} are not up to date: ${reason}`)
    }
    this.#lastFailure = reason
    this.#workAfter(backoff(++this.#failures, RETRY), () => void this.#work())
  }

  #workAfter(ms: number, task: () => void): void {
    this.#timer?.[Symbol.dispose]()
    this.#timer = after(this.#parts.clock, ms, task)
  }

  #cleanLater(): void {
    this.#cleaning?.[Symbol.dispose]()
    this.#cleaning = after(this.#parts.clock, PREVIOUS_MS, () => {
      if (!this.#isWorking) this.#directory.dropPrevious().catch((error: unknown) => this.#onFailure(scrub(error)))
    })
  }
}

/** Reads the configuration again on demand and when the file changes, and applies what can change while the agent runs. */
import { type SecretManager, WatchedFiles } from '@livery/core'
import { after, untilAborted } from '@livery/core/plugin'
import { changedKeys, withoutLive } from '../config/changed-keys.ts'
import type { LoadedConfig } from '../config/load.ts'
import { settingsSchema } from '../config/schema.ts'
import type { Basis } from '../life/basis.ts'
import type { EventLog } from '../observe/event-log.ts'
import { ConfigError, describeConfigError } from '../schema/config-error.ts'
import { Location, plain } from '../schema/config-tree.ts'
import { contentDigest } from '../schema/document.ts'
import { formatLogLevels, LOG_SCOPES, type LogLevels } from '../schema/log-level.ts'
import type { LiveChanges, LiveConfig } from '../sds/live-config.ts'

/**
 * How long a file that was written in place has to stay unchanged before it is read: its first half can also be a valid
 * configuration, which would remove what the other half lists.
 */
const QUIET_MS = 3_000

interface ConfigReloaderOptions extends Pick<Basis, 'lastRead' | 'clock' | 'scopes'> {
  /** Loads it as at the start: the same file, flags and environment. The result is ignored once the signal is aborted. */
  readonly load: (signal: AbortSignal) => Promise<LoadedConfig>
  readonly live: Pick<LiveConfig, 'apply'>
  readonly log: Pick<EventLog, 'write'>
  /** Failing identities are retried with each configuration in force, even an unchanged one. */
  readonly secrets: Pick<SecretManager, 'retryFailing'>
}

/** Watches the file, if there is one, until it is disposed. */
export class ConfigReloader implements AsyncDisposable {
  /** How often it was read again, and how often it could not be used. */
  readonly counts = { success: 0, failure: 0 }
  readonly #options: ConfigReloaderOptions
  readonly #watched: WatchedFiles | undefined
  readonly #closing = new AbortController()
  readonly #started: LoadedConfig
  /** Digest of the last content read, in force or refused. */
  #digest: string | undefined
  /** The last content seen while the file is being written. */
  #partial: { readonly digest: string; readonly timer: Disposable } | undefined
  #reloading: Promise<void> = Promise.resolve()

  constructor(options: ConfigReloaderOptions) {
    const { lastRead, clock, scopes } = options
    const started = lastRead.loaded
    this.#options = options
    this.#started = started
    this.#digest = started.digest
    const { file } = started
    if (file === undefined) return
    this.#watched = new WatchedFiles(clock, err =>
      scopes.of('config').warn({ err }, `${file} cannot be watched: it is looked at once a minute`),
    )
    this.#watched.add([file], reason => this.#look(file, reason === 'replaced'))
    // The file may have changed since it was loaded.
    this.#look(file, false)
  }

  /** Never rejects: an unusable configuration changes nothing, and is logged and counted. */
  reload(): Promise<void> {
    return this.#reloadNext()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error('the agent is shutting down'))
    this.#watched?.[Symbol.dispose]()
    this.#partial?.timer[Symbol.dispose]()
    await this.#reloading
  }

  #reloadNext(whole?: string): Promise<void> {
    this.#reloading = this.#reloading.then(() => this.#reload(whole))
    return this.#reloading
  }

  #look(file: string, isWhole: boolean): void {
    const digest = contentDigest(file)
    if (digest === this.#partial?.digest && !isWhole) return
    const isFirst = this.#partial === undefined
    this.#partial?.timer[Symbol.dispose]()
    this.#partial = undefined
    if (digest === this.#digest) return
    if (isWhole) void this.#reloadNext(digest)
    else this.#wait(file, digest, isFirst)
  }

  #wait(file: string, digest: string, isFirst: boolean): void {
    const { clock, scopes } = this.#options
    const timer = after(clock, QUIET_MS, () => {
      this.#partial = undefined
      this.#look(file, contentDigest(file) === digest)
    })
    this.#partial = { digest, timer }
    if (!isFirst) return
    const wait = `it may be half written, and is read when it has stayed the same for ${QUIET_MS / 1_000} s`
    const advice = 'Replace it by rename, or send SIGHUP, to have it read at once'
    scopes.of('config').info(`${file} has changed in place: ${wait}. ${advice}`)
  }

  /** `whole`: the digest of the only content to read. */
  async #reload(whole: string | undefined): Promise<void> {
    const { load, live, scopes, secrets } = this.#options
    const started = this.#started
    const { signal } = this.#closing
    if (signal.aborted) return
    // The digest is taken before the load: if the file changes in between, the next look sees another digest and loads it again.
    if (started.file !== undefined) this.#digest = whole ?? contentDigest(started.file)
    try {
      // The plugin that it names may take its time.
      const loaded = await untilAborted(load(signal), signal)
      if (started.file !== undefined && whole !== undefined && loaded.digest !== whole)
        return this.#look(started.file, false)
      refuseOtherTrustDomain(started, loaded)
      const changes = await live.apply(loaded.config, signal)
      this.#takeOver(loaded, changes)
      secrets.retryFailing()
      this.counts.success++
    } catch (error) {
      if (signal.aborted) return
      this.counts.failure++
      scopes.of('config').error(`not reloaded, the previous configuration stays in force: ${describe(error)}`)
    }
  }

  #takeOver(loaded: LoadedConfig, changes: LiveChanges): void {
    const { lastRead, scopes } = this.#options
    const logger = scopes.of('config')
    const before = lastRead.loaded
    const needsRestart = [
      ...changedKeys(
        withoutLive(settingsSchema, plain(this.#started.root)),
        withoutLive(settingsSchema, plain(loaded.root)),
      ),
      ...changes.needsRestart,
    ]
    lastRead.loaded = loaded
    lastRead.needsRestart = needsRestart
    this.#followLevels(before.config.log.level, loaded.config.log.level)
    for (const warning of loaded.warnings) if (!before.warnings.includes(warning)) logger.warn(warning)
    if (needsRestart.length > 0)
      logger.warn({ keys: needsRestart }, `needs a restart to take effect: ${needsRestart.join(', ')}`)
    const { needsRestart: _, ...counts } = changes
    logger.info(counts, `reloaded: ${describeChanges(changes)}`)
  }

  /** Follows changes of the file only: another change there does not undo a level that was set through the admin endpoint. */
  #followLevels(before: LogLevels, now: LogLevels): void {
    const { scopes, log } = this.#options
    const changed = changedLevels(before, now)
    if (Object.keys(changed).length === 0) return
    const from = formatLogLevels(scopes.levels())
    scopes.change(changed)
    const to = formatLogLevels(scopes.levels())
    log.write({ kind: 'log-level-changed', to, from })
  }
}

/** The scopes whose levels differ. */
function changedLevels(before: LogLevels, now: LogLevels): Partial<LogLevels> {
  const changed = LOG_SCOPES.filter(scope => now[scope] !== before[scope])
  return Object.fromEntries(changed.map(scope => [scope, now[scope]]))
}

function describe(error: unknown): string {
  if (error instanceof ConfigError) return describeConfigError(error)
  return error instanceof Error ? error.message : String(error)
}

/** `3 identities added, 1 removed, 1 socket opened`. */
export function describeChanges(changes: LiveChanges): string {
  const parts: string[] = []
  let last = ''
  const add = (count: number, noun: string, plural: string, verb: string): void => {
    if (count === 0) return
    parts.push(last === noun ? `${count} ${verb}` : `${count} ${count === 1 ? noun : plural} ${verb}`)
    last = noun
  }
  add(changes.identitiesAdded, 'identity', 'identities', 'added')
  add(changes.identitiesRemoved, 'identity', 'identities', 'removed')
  add(changes.socketsOpened, 'socket', 'sockets', 'opened')
  add(changes.socketsWaiting, 'socket', 'sockets', 'waiting for another process to leave')
  add(changes.socketsClosed, 'socket', 'sockets', 'closed')
  add(changes.socketsChanged, 'socket', 'sockets', 'changed')
  return parts.length === 0 ? 'identities and sockets are the same' : parts.join(', ')
}

/** All that the agent holds and serves belongs to its trust domain. */
function refuseOtherTrustDomain(started: LoadedConfig, { config, root }: LoadedConfig): void {
  const { trustDomain } = started.config
  if (config.trustDomain === trustDomain) return
  const reason = `${JSON.stringify(config.trustDomain)} cannot replace ${trustDomain} while the agent runs`
  throw new ConfigError([new Location(root, ['trustDomain']).problem({ reason, remedy: 'Restart it' })])
}

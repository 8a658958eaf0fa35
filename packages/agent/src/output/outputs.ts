/** The directories to which certificates are written, one per identity with an output. */
import { isDeepStrictEqual } from 'node:util'
import { WatchedFiles } from '@livery/core'
import { Semaphore } from '@livery/core/plugin'
import type { ConfiguredIdentity } from '../config/identities.ts'
import type { OutputSetting } from '../config/output-schema.ts'
import { IdentityOutput, type OutputsParts } from './identity-output.ts'

/** Limits the disk's load: each write is four or five fsyncs. */
const WRITES_AT_ONCE = 4

type Given = Pick<ConfiguredIdentity, 'id' | 'output'>

export class Outputs implements Disposable {
  /** How often a set was written, and how often that failed. */
  readonly counts = { written: 0, failures: 0 }
  readonly #parts: OutputsParts
  readonly #watched: WatchedFiles
  readonly #writes = new Semaphore(WRITES_AT_ONCE)
  readonly #outputs = new Map<string, { readonly setting: OutputSetting; readonly output: IdentityOutput }>()
  #followed: readonly Given[] = []
  #isReleased = false

  constructor(parts: OutputsParts) {
    const { clock, logger } = parts
    this.#parts = parts
    this.#watched = new WatchedFiles(clock, err =>
      logger.warn({ err }, 'cannot watch the output directories: they are looked at every 60 s'),
    )
  }

  /** Writes for these identities from now on, or from `reclaim` on; an identity with the same output keeps its state. */
  follow(identities: Iterable<Given>): void {
    this.#followed = [...identities].filter(({ output }) => output)
    if (this.#isReleased) return
    const wanted = new Map<string, Given>(this.#followed.map(identity => [identity.id, identity]))
    for (const [id, { setting, output }] of this.#outputs) {
      if (isDeepStrictEqual(wanted.get(id)?.output, setting)) continue
      output[Symbol.dispose]()
      this.#outputs.delete(id)
    }
    for (const { id, output } of wanted.values())
      if (output && !this.#outputs.has(id)) this.#outputs.set(id, { setting: output, output: this.#open(id, output) })
  }

  /** Writes nothing more until `reclaim`: the directories belong to another process. */
  release(): void {
    this.#isReleased = true
    for (const { output } of this.#outputs.values()) output[Symbol.dispose]()
    this.#outputs.clear()
  }

  /** Takes the directories back. */
  reclaim(): void {
    this.#isReleased = false
    this.follow(this.#followed)
  }

  leave(): void {
    this[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    this.release()
    this.#watched[Symbol.dispose]()
  }

  #open(identity: ConfiguredIdentity['id'], setting: OutputSetting): IdentityOutput {
    const { counts } = this
    return new IdentityOutput({
      ...this.#parts,
      identity,
      setting,
      counts,
      watched: this.#watched,
      writes: this.#writes,
    })
  }
}

/** A directory of callers in memory: subjects are known by their pids, and have the facts that a test sets. */
import { Events, type PeerCredentials } from '@livery/core'
import type { SpiffeId } from '@livery/core/plugin'
import type { CallerDirectory, CallerFacts, Identification } from '../src/access/caller-directory.ts'

export class MemoryDirectory implements CallerDirectory {
  readonly changes = new Events<string>()
  readonly #facts = new Map<string, CallerFacts>()
  /** The pid of the next connection; all have one uid. */
  pid = 0
  /** How many connections were identified. */
  identified = 0

  readonly readPeerCredentials = (): PeerCredentials => ({ pid: this.pid, uid: 1337, gid: 1337 })

  /** Pid 0 is nobody. */
  identifyCaller({ pid }: PeerCredentials): Identification {
    this.identified++
    if (pid < 0) throw new Error('no such process')
    return pid === 0 ? { problem: 'process 0 is in no pod' } : { subject: `pod ${pid}` }
  }

  factsOf(subject: string): CallerFacts | undefined {
    return this.#facts.get(subject)
  }

  set(pid: number, identity: SpiffeId | undefined, ...selectors: readonly string[]): void {
    this.#facts.set(`pod ${pid}`, { identity, selectors: new Set(selectors), pod: `uid-${pid}` })
    this.changes.emit(`pod ${pid}`)
  }

  delete(pid: number): void {
    this.#facts.delete(`pod ${pid}`)
    this.changes.emit(`pod ${pid}`)
  }
}

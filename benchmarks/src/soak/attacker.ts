/** The attacker of the soak, in a separate process with another uid: runs one attack after the other until it is killed. */
import { getPriority, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { ATTACKS, type Target } from './attacks.ts'

export interface AttackOrder {
  readonly target: Target
  readonly uid: number
  /** Milliseconds. */
  readonly eachMs: number
}

/** The attack that begins. */
export interface AttackReport {
  readonly attack: string
}

/** The soak measures the agent's work, not the CPU that this process takes from it. */
const LOWER_BY = 10

process.once('disconnect', () => process.exit())
process.once('message', async ({ target, uid, eachMs }: AttackOrder) => {
  setPriority(Math.min(getPriority() + LOWER_BY, 19))
  process.setgroups?.([])
  process.setgid?.(uid)
  process.setuid?.(uid)
  for (;;) {
    for (const { name, run } of ATTACKS) {
      process.send?.({ attack: name } satisfies AttackReport)
      const end = new AbortController()
      const ended = run(target, end.signal)
      await sleep(eachMs)
      end.abort()
      await ended
    }
  }
})

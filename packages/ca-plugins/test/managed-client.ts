/** A CA client under a SecretManager, whose events a test waits for. */
import { once } from 'node:events'
import { type SecretEvent, SecretManager } from '@livery/core'
import type { CAClient, Clock } from '@livery/core/plugin'
import { TestKeyGenerator } from '@livery/core/testing'

/** The manager is disposed with the result; it holds no identity yet. */
export function manage(ca: CAClient, clock: Clock) {
  const events: SecretEvent[] = []
  const heard = new EventTarget()
  const manager = new SecretManager({ ca, clock, keyGenerator: new TestKeyGenerator(), trustDomain: 'cluster.local' })
  manager.events.subscribe(({ event }) => {
    events.push(event)
    heard.dispatchEvent(new Event('event'))
  })
  return {
    manager,
    events,
    /** The event of this kind, the first or the `count`th. */
    async until(kind: SecretEvent['kind'], count = 1): Promise<SecretEvent> {
      for (;;) {
        const event = events.filter(each => each.kind === kind)[count - 1]
        if (event) return event
        await once(heard, 'event')
      }
    },
    [Symbol.asyncDispose]: () => manager[Symbol.asyncDispose](),
  }
}

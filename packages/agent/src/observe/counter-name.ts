/** Checks the names of plugin counters. */
import { scrub } from '@livery/core/plugin'

/** Throws a `TypeError` that shows the right form. */
export function checkCounterName(name: string): void {
  if (/^[a-z][a-z0-9_]{0,63}$/.test(name)) return
  throw new TypeError(
    `Cannot count ${JSON.stringify(scrub(name, { maxLength: 100 }))}: it is not a name in snake_case of at most 64 characters. Write such as calls_repeated.`,
  )
}

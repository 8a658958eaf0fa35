/** How the counters of a plugin are named. */

/** Throws a `TypeError` that says how. */
export function checkCounterName(name: string): void {
  if (/^[a-z][a-z0-9_]*$/.test(name)) return
  throw new TypeError(
    `Cannot count ${JSON.stringify(name)}: it is no name in snake_case. Write such as calls_repeated.`,
  )
}

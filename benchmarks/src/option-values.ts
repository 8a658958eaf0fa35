/** Reads the values of command line options: every error is a `TypeError` that names the option and says what to write. */

/** The result of `parse` for the command line of `npm run <script>`; reports a wrong one on stderr. */
export function readOptions<Options>(
  args: readonly string[],
  parse: (args: readonly string[]) => Options | undefined,
  script: string,
): Options | 'help' | 'wrong' {
  try {
    return parse(args) ?? 'help'
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    process.stderr.write(`${script}: ${error.message}\n(npm run ${script} -- --help lists the options)\n`)
    return 'wrong'
  }
}

export function oneOf<Choice extends string>(option: string, text: string, choices: readonly Choice[]): Choice {
  const choice = choices.find(each => each === text)
  if (choice === undefined) throw refuse(option, text, `is not one of ${choices.join(', ')}`, 'Write one of them')
  return choice
}

/** A whole number from 1 to `most`. */
export function count(option: string, text: string, most: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : 0
  if (value >= 1 && value <= most) return value
  throw refuse(option, text, `is not a whole number from 1 to ${most}`, 'Write digits only')
}

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Milliseconds. */
export function duration(option: string, text: string): number {
  const [, amount = '', unit = ''] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text) ?? []
  const factor = UNITS[unit]
  if (factor !== undefined) return Number(amount) * factor
  throw refuse(option, text, 'is not a duration', 'Write a number and a unit, such as 500ms, 90s, 10m or 24h')
}

/** Reads a {@link duration} of at least `leastMs`. */
export function atLeast(option: string, text: string, leastMs: number): number {
  const value = duration(option, text)
  if (value < leastMs) throw refuse(option, text, `is less than ${leastMs} ms`, 'Write a longer one')
  return value
}

/** The error of an option that cannot be used. */
export function refuse(option: string, text: string, reason: string, remedy: string): TypeError {
  return new TypeError(`--${option} ${JSON.stringify(text.slice(0, 100))} ${reason}. ${remedy}.`)
}

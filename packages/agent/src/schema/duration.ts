/** Durations as the configuration writes them: `500ms`, `5s`, `24h`, `90d`, `1h30m`. */

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/
const PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g

/** Milliseconds, or `undefined` if it is not a duration. Go's form is read too, since Istio's variables use it. */
export function parseDuration(text: string): number | undefined {
  if (!WHOLE.test(text)) return undefined
  let total = 0
  for (const [, amount = '', unit = ''] of text.matchAll(PART)) total += Number(amount) * (UNITS[unit] ?? Number.NaN)
  return Number.isFinite(total) ? total : undefined
}

/** The shortest form of the configuration: `150s`, `5m`, `24h`. Days are written as hours. */
export function formatDuration(ms: number): string {
  const unit = ['h', 'm', 's'].find(name => ms > 0 && ms % (UNITS[name] ?? Number.NaN) === 0) ?? 'ms'
  return `${ms / (UNITS[unit] ?? 1)}${unit}`
}

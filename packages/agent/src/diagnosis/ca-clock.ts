/** Estimates the clock difference between this node and the CA from a new certificate, for doctor and the page. */

export interface ClockDifference {
  /** Whose clock is ahead. */
  readonly ahead: 'node' | 'CA'
  /** Milliseconds; a lower bound, unless `isExact`. */
  readonly ms: number
  /** Whether the end of the certificate shows when the CA signed. */
  readonly isExact: boolean
}

/** When a certificate came, and its requested lifetime; milliseconds. */
interface Receipt {
  readonly at: number
  readonly ttlMs: number
}

/** Milliseconds since the epoch. */
interface Dates {
  readonly notBefore: number
  readonly notAfter: number
}

/** A CA sets notBefore back by up to five minutes, for clients whose clock is behind: istiod by two, Kubernetes by five. */
export const MAX_BACKDATE_MS = 300_000
/** A smaller difference harms no token, certificate or TLS; a slow answer looks like a node that is ahead. */
const NODE_AHEAD_MS = 60_000
/** The same threshold as the alert LiveryClockSkew: no answer comes before it was signed. */
const CA_AHEAD_MS = 30_000

/** `undefined` while the clocks agree. */
export function clockDifference(dates: Dates, receipt: Receipt): ClockDifference | undefined {
  const { earliest, latest } = timeOfSigning(dates, receipt.ttlMs)
  const isExact = earliest === latest
  const [node, ca] = [receipt.at - latest, earliest - receipt.at]
  if (node > NODE_AHEAD_MS) return { ahead: 'node', ms: node, isExact }
  return ca > CA_AHEAD_MS ? { ahead: 'CA', ms: ca, isExact } : undefined
}

/** When the CA signed, on its own clock. If it kept the requested lifetime, that is notAfter minus this lifetime. */
function timeOfSigning({ notBefore, notAfter }: Dates, ttlMs: number): { earliest: number; latest: number } {
  const signed = notAfter - ttlMs
  const isKept = signed > notBefore && signed <= notBefore + MAX_BACKDATE_MS
  return isKept ? { earliest: signed, latest: signed } : { earliest: notBefore, latest: notBefore + MAX_BACKDATE_MS }
}

/** `the clocks of this node and of the CA differ by 10 minutes: this node's is ahead`. */
export function clockText({ ahead, ms, isExact }: ClockDifference): string {
  const amount = `${isExact ? '' : 'at least '}${roundTime(ms)}`
  return `the clocks of this node and of the CA differ by ${amount}: ${ahead === 'node' ? "this node's" : "the CA's"} is ahead`
}

export const CLOCK_REMEDY = 'Compare both clocks with NTP (timedatectl, chronyc tracking), and correct the wrong one'

/** Rounds the estimate, since its seconds mean nothing: `90 seconds`, `10 minutes`, `3 hours`. */
function roundTime(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} seconds`
  const minutes = Math.round(seconds / 60)
  return minutes < 120 ? `${minutes} minutes` : `${Math.round(minutes / 60)} hours`
}

/** When an outage hurts most: arithmetic over the renewal window of certificates that were all issued at the same time. */

/** Core's defaults (renewal-time.ts): renewal after half of the lifetime, ±10 % of it. */
const WINDOW = { from: 0.4, until: 0.6 }
const STEPS = 200

/**
 * The start of an outage of `outageMs`, milliseconds after everything was issued for `ttlMs`, that leaves most
 * identities longest without a certificate; if none lapses, the outage ends with the last renewal due.
 */
export function worstOutageStart(ttlMs: number, outageMs: number): number {
  const starts = grid().map(fraction => Math.round(fraction * ttlMs))
  const lost = starts.map(start => lostMs(start, ttlMs, outageMs))
  const worst = lost.reduce((a, b) => Math.max(a, b))
  if (worst === 0) return Math.round(Math.max(WINDOW.from * ttlMs, WINDOW.until * ttlMs - outageMs))
  return starts[lost.indexOf(worst)] ?? 0
}

/** The shortest lifetime with which an outage loses nothing, if all are renewed the moment it ends. */
export function leastSafeTtl(outageMs: number): number {
  return outageMs / (1 - WINDOW.until)
}

/** Time without a certificate, averaged over the identities of the window. */
function lostMs(start: number, ttlMs: number, outageMs: number): number {
  const lost = grid().map(fraction => {
    const dueAt = fraction * ttlMs
    const endsAt = dueAt < start ? dueAt + ttlMs : ttlMs
    return Math.max(0, start + outageMs - endsAt)
  })
  return lost.reduce((a, b) => a + b) / lost.length
}

function grid(): number[] {
  return Array.from({ length: STEPS + 1 }, (_, step) => WINDOW.from + ((WINDOW.until - WINDOW.from) * step) / STEPS)
}

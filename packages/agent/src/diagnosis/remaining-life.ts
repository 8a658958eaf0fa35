/** What is left of a certificate's life, as the page, the metric and its alerts measure it. */

/** Certificates are renewed with about half of their life left. As the alerts of the runbook have it. */
export const LATE = 0.25
export const VERY_LATE = 0.1

/**
 * From 1 to 0. The life begins when the certificate came, `receivedAt` in milliseconds since the epoch: a CA back-dates
 * notBefore, and renewals are planned from what was left on arrival.
 */
export function remainingLife(
  { notBefore, notAfter }: { readonly notBefore: number; readonly notAfter: number },
  receivedAt: number | undefined,
  now: number,
): number {
  const begin = Math.max(notBefore, receivedAt ?? notBefore)
  return Math.min(1, Math.max(0, notAfter - now) / Math.max(1, notAfter - begin))
}

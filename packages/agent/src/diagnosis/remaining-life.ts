/** What is left of a certificate's life, as the diagnosis, the page and the metric measure it. */

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

/** The remaining part of a certificate's life, as the diagnosis, the page and the metric measure it. */

/**
 * The result falls from 1 to 0. The life begins on arrival, at `receivedAt` in milliseconds since the epoch: a CA back-dates
 * notBefore, and renewals are planned from the life left on arrival.
 */
export function remainingLife(
  { notBefore, notAfter }: { readonly notBefore: number; readonly notAfter: number },
  receivedAt: number | undefined,
  now: number,
): number {
  const begin = Math.max(notBefore, receivedAt ?? notBefore)
  return Math.min(1, Math.max(0, notAfter - now) / Math.max(1, notAfter - begin))
}

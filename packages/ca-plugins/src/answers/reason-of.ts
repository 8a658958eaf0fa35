/** The reason in a thrown value, for the middle of a message. */

/** The innermost cause of a failed connection, at the first address tried. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return reasonOf(error.errors[0])
  if (!(error instanceof Error)) return String(error)
  // `fetch` keeps the reason in its cause.
  const isBare = error.message === '' || error.message === 'fetch failed' || error.message === 'terminated'
  if (isBare && error.cause !== undefined) return reasonOf(error.cause)
  return error.message || error.name
}

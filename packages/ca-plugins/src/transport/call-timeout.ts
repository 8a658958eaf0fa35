/** How long one call to a CA may take, milliseconds. */
export const CALL_TIMEOUT_MS = 10_000

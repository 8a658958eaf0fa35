/** The code of a system error: a word for the cause that no locale changes. */

/** The `code` of `error`, such as `ENOENT` or `ERR_MODULE_NOT_FOUND`; `undefined` if it has no code that is a text. */
export function systemErrorCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

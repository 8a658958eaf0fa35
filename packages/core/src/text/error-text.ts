/** The text of whatever was thrown. A plugin may throw a value without a text, and reading it must not throw again. */

export function errorText(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    return 'something was thrown that has no text'
  }
}

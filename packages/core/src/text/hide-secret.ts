/** A known secret in a text of a peer, which may quote it as it came over the wire, or encoded. */

const SHOWN = '[secret]'
/** Characters of the shortest secret. A shorter one is in many words, and everybody can guess it. */
export const MIN_SECRET_LENGTH = 4
/** Base64 of less has too few characters to be the secret's and nothing else's. */
const MIN_ENCODED = 12

/**
 * The text without `secret`: as it is, with escapes (percent, backslash, HTML), in hexadecimal, and in base64 wherever it
 * begins in what was encoded. A `secret` of fewer than four characters is not looked for.
 */
export function hideSecret(text: string, secret: string): string {
  return secret.length < MIN_SECRET_LENGTH ? text : hideForms(text, formsOf(secret))
}

/** The forms of a secret that is looked for in many texts. */
export interface SecretForms {
  readonly secret: string
  /** Its letters and digits. */
  readonly runs: readonly string[]
  readonly encoded: readonly string[]
}

export function formsOf(secret: string): SecretForms {
  return { secret, runs: secret.split(/[^A-Za-z0-9]+/), encoded: encodedForms(secret) }
}

export function hideForms(text: string, { secret, runs, encoded }: SecretForms): string {
  const plain = text.replaceAll(secret, SHOWN)
  const escaped = mayBeEscapedIn(plain, runs) ? plain.replace(escapedForm(secret), SHOWN) : plain
  return encoded.reduce((hidden, form) => hidden.replaceAll(form, SHOWN), escaped)
}

/** Letters and digits stand for themselves in every escaping. Looking for them alone is a hundredth of the work. */
function mayBeEscapedIn(text: string, runs: readonly string[]): boolean {
  let at = 0
  for (const run of runs) {
    const found = text.indexOf(run, at)
    if (found === -1) return false
    at = found + run.length
  }
  return runs.length > 1
}

function escapedForm(secret: string): RegExp {
  return new RegExp(secret.replace(/[^A-Za-z0-9]/g, escapesOf), 'g')
}

function escapesOf(character: string): string {
  const code = character.charCodeAt(0)
  const hex = anyCase(code.toString(16).padStart(2, '0'))
  const literal = `\\x${code.toString(16).padStart(2, '0')}`
  const itself = code > 0xff ? `\\u${code.toString(16).padStart(4, '0')}` : literal
  return `(?:\\\\?${itself}|%${hex}|\\\\u00${hex}|\\\\x${hex}|&#(?:0*${code}|[xX]0*${hex});)`
}

function anyCase(hex: string): string {
  return hex.replace(/[a-f]/g, digit => `[${digit}${digit.toUpperCase()}]`)
}

function encodedForms(secret: string): readonly string[] {
  const hex = Buffer.from(secret).toString('hex')
  const forms = [0, 1, 2].flatMap(offset => [base64At(secret, offset, 'base64'), base64At(secret, offset, 'base64url')])
  return [...forms, hex, hex.toUpperCase()].filter(form => form.length >= MIN_ENCODED)
}

/** The characters that depend on nothing but the secret, where `offset` bytes of a group of three come before it. */
function base64At(secret: string, offset: number, encoding: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)])
  const first = Math.ceil((offset * 4) / 3)
  return bytes.toString(encoding).slice(first, Math.floor((bytes.length * 4) / 3))
}

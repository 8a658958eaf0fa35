/** The one door for texts of others (plugins, CAs, thrown values) on their way to a log, an error, the ledger or a terminal. */
import { errorText } from './error-text.ts'
import { hideSecret } from './hide-secret.ts'
import { hideKnown } from './known-secrets.ts'

/** Characters that are looked at: a message can have a hundred million. */
const MAX_READ = 16_384
/** Characters that are left, unless the caller says otherwise. */
const MAX_TEXT = 1_000

export interface ScrubOptions {
  /** Known secrets beside the tokens of {@link rememberToken}: removed in every encoding, if of at least four characters (see `hideSecret`). */
  readonly secrets?: readonly string[]
  /** Default: 1,000. */
  readonly maxLength?: number
}

/** Patterns of credentials, and what replaces them. Each takes a time linear to the length of the text. */
const CREDENTIALS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)/g, '[private key]'],
  [/-----BEGIN [A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*-----|$)/g, '[PEM]'],
  [/\bbearer\s+\S+/gi, 'bearer [token]'],
  [/\bauthorization["']? ?[:=] ?\S+(?: \S+)?/gi, 'authorization: [secret]'],
  [/eyJ[\w.-]{8,}/g, '[token]'],
  [/\bhv[sbr]\.[\w-]{20,}/g, '[token]'],
  [/(password|passwd|passphrase)(["']?) ?[=:] ?["']?[^\s"',;&}]+/gi, '$1$2=[secret]'],
  [/(secret|token|api[_-]?key|private[_-]?key)(?:=["']?|["'] ?: ?["'])[^\s"',;&}]+/gi, '$1=[secret]'],
  [/:\/\/[^\s/@:"']+(?::(?!\d{1,5}[/?#])[^\s"']{0,256})?@/g, '://[secret]@'],
]

/**
 * One line without control characters, directions of writing, halves of characters and credentials, cut at `maxLength`.
 * Takes whatever was thrown, and never throws. An error with a scrubbed text has no `cause`, which would carry the
 * original text.
 */
export function scrub(thrown: unknown, { secrets = [], maxLength = MAX_TEXT }: ScrubOptions = {}): string {
  const hide = (text: string) => hideKnown(secrets.reduce(hideSecret, text))
  const shown = hide(beginning(errorText(thrown)))
  const line = oneLine(shown)
  // Characters that stood inside a secret were removed above.
  let text = line === shown ? line : hide(line)
  for (const [pattern, placeholder] of CREDENTIALS) text = text.replace(pattern, placeholder)
  text = text.replace(/[A-Za-z0-9+/=_-]{40,}/g, run => (isEncoded(run) ? '[removed]' : run))
  // The cut may leave half a surrogate pair.
  return text
    .slice(0, maxLength)
    .replace(/\p{Cs}$/u, '')
    .trimEnd()
}

/**
 * One configuration value without the user name, password or token before the host of an address. An ambiguous value
 * loses more: a password may contain any character, even one that should be encoded.
 */
export function hideUserinfo(value: string): string {
  const end = value.lastIndexOf('@')
  if (end === -1) return value
  const before = value.slice(0, end)
  const authority = /(?<!\/)\/\/(?!\/)/.exec(before)
  if (authority) return `${before.slice(0, authority.index)}//[secret]${value.slice(end)}`
  const isAddress = /^[^\s/:@]+:(?!\/)/.test(before) || /:\d+\/?$/.test(value)
  return isAddress ? `[secret]${value.slice(end)}` : value
}

/** The text on one line, as a terminal can print it: nothing in it moves the cursor or turns the direction of writing. */
export function oneLine(text: string): string {
  return text
    .replace(/\p{Cf}+/gu, '')
    .replace(/[\s\p{C}]+/gu, ' ')
    .trim()
}

/** The text, as a terminal can print it: as {@link oneLine}, but its lines, tabs and spaces stay. */
export function printable(text: string): string {
  return text.replace(/[^\P{C}\n\t]+|[\u2028\u2029]+/gu, ' ')
}

/** Cuts between two words: no pattern would recognise half a secret. */
function beginning(text: string): string {
  if (text.length <= MAX_READ) return text
  const cut = text.slice(0, MAX_READ)
  const end = Math.max(cut.lastIndexOf(' '), cut.lastIndexOf('\n'))
  return end === -1 ? '[long text]' : cut.slice(0, end)
}

/** Base64, unlike a path or a hash in hexadecimal, has letters of both cases and digits. */
function isEncoded(run: string): boolean {
  const count = (pattern: RegExp): number => run.match(pattern)?.length ?? 0
  return count(/[A-Z]/g) >= 5 && count(/[a-z]/g) >= 5 && count(/\d/g) >= 1
}

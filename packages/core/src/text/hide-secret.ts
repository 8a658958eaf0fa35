/** A known secret in a text of a peer, which may quote it as it came over the wire, or encoded. */

const SHOWN = '[secret]'
export const MIN_SECRET_LENGTH = 4
/** Base64 of fewer characters is too short to be a sure match. */
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
  const escaped = mayBeEscapedIn(plain, runs) ? hideEscaped(plain, secret) : plain
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

const PERCENT = /%(?<hex>[0-9a-f]{2})/gi
const BACKSLASH = /\\(?:u(?<long>[0-9a-f]{4})|x(?<short>[0-9a-f]{2})|(?<itself>[^A-Za-z0-9]))/gi
const HTML = /&#(?:0*(?<decimal>\d{1,5})|x0*(?<hexadecimal>[0-9a-f]{1,4}));/gi
/** Each alone, since a secret may contain what looks like an escape of another kind, and all together. */
const ESCAPES: readonly RegExp[] = [
  PERCENT,
  BACKSLASH,
  HTML,
  new RegExp([PERCENT, BACKSLASH, HTML].map(({ source }) => source).join('|'), 'gi'),
]

/**
 * Takes the escapes out of the text and looks for the secret in the rest. A pattern with all escapes of each character would
 * take time in proportion to both lengths, and a CA can choose both: its text's, and the length of a token that it gives.
 */
function hideEscaped(text: string, secret: string): string {
  return ESCAPES.reduce((hidden, escapes) => {
    const { plain, sources } = unescapedOf(hidden, escapes)
    if (plain.length === hidden.length) return hidden
    let result = ''
    let end = 0
    for (let at = plain.indexOf(secret); at !== -1; at = plain.indexOf(secret, at + secret.length)) {
      result += hidden.slice(end, sources[at]) + SHOWN
      end = sources[at + secret.length] ?? hidden.length
    }
    return result + hidden.slice(end)
  }, text)
}

interface Unescaped {
  readonly text: string
  readonly plain: string
  /** Where each character of `plain` begins in the text, and the end of it. */
  readonly sources: Uint32Array
}

/** The latest texts: one text is searched for many secrets. */
const unescaped = new Map<RegExp, Unescaped>()

function unescapedOf(text: string, escapes: RegExp): Unescaped {
  const known = unescaped.get(escapes)
  if (known?.text === text) return known
  const sources = new Uint32Array(text.length + 1)
  let plain = ''
  let end = 0
  const take = (until: number) => {
    for (let at = end; at < until; at++) sources[plain.length + at - end] = at
    plain += text.slice(end, until)
    end = until
  }
  for (const { 0: match, index, groups } of text.matchAll(escapes)) {
    take(index)
    sources[plain.length] = index
    plain += characterOf(groups ?? {})
    end = index + match.length
  }
  take(text.length)
  sources[plain.length] = text.length
  const read = { text, plain, sources }
  unescaped.set(escapes, read)
  return read
}

function characterOf(groups: Readonly<Record<string, string | undefined>>): string {
  const { hex, long, short, hexadecimal, decimal, itself } = groups
  if (itself !== undefined) return itself
  const sixteen = hex ?? long ?? short ?? hexadecimal
  return String.fromCharCode(sixteen === undefined ? Number(decimal) : Number.parseInt(sixteen, 16))
}

function encodedForms(secret: string): readonly string[] {
  const hex = Buffer.from(secret).toString('hex')
  const forms = [0, 1, 2].flatMap(offset => [base64At(secret, offset, 'base64'), base64At(secret, offset, 'base64url')])
  return [...forms, hex, hex.toUpperCase()].filter(form => form.length >= MIN_ENCODED)
}

/** The characters that depend only on the secret when `offset` bytes of a group of three precede it. */
function base64At(secret: string, offset: number, encoding: 'base64' | 'base64url'): string {
  const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret)])
  const first = Math.ceil((offset * 4) / 3)
  return bytes.toString(encoding).slice(first, Math.floor((bytes.length * 4) / 3))
}

/** PEM (RFC 7468) of a private key without a JavaScript string, which nothing could wipe. */

const ALPHABET = Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const PADDING = '='.charCodeAt(0)
const NEWLINE = '\n'.charCodeAt(0)
const LINE_LENGTH = 64

/** PEM in lines of 64 characters with a newline at the end, in separate memory: the caller wipes it. */
export function privateKeyToPem(der: Uint8Array, label: string): Buffer {
  const begin = Buffer.from(`-----BEGIN ${label}-----\n`)
  const end = Buffer.from(`-----END ${label}-----\n`)
  const characters = Math.ceil(der.length / 3) * 4
  const body = characters + Math.ceil(characters / LINE_LENGTH)
  const pem = Buffer.alloc(begin.length + body + end.length)
  begin.copy(pem)
  writeBase64(der, pem.subarray(begin.length, begin.length + body))
  end.copy(pem, begin.length + body)
  return pem
}

function writeBase64(bytes: Uint8Array, out: Uint8Array): void {
  let position = 0
  let column = 0
  const put = (character: number | undefined) => {
    out[position++] = character ?? PADDING
    column = (column + 1) % LINE_LENGTH
    if (column === 0) out[position++] = NEWLINE
  }
  for (let index = 0; index < bytes.length; index += 3) {
    const [first = 0, second, third] = bytes.subarray(index, index + 3)
    put(ALPHABET[first >> 2])
    put(ALPHABET[((first & 3) << 4) | ((second ?? 0) >> 4)])
    put(second === undefined ? PADDING : ALPHABET[((second & 15) << 2) | ((third ?? 0) >> 6)])
    put(third === undefined ? PADDING : ALPHABET[third & 63])
  }
  if (column !== 0) out[position] = NEWLINE
}

/** PEM (RFC 7468), as CAs and files hold it: one certificate an element, and back to DER. */

const LINE = 64
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** The certificates of a PEM text, each with a newline at the end, in their order. Text between them is dropped. */
export function splitCertificates(pem: string): string[] {
  const blocks = pem.match(CERTIFICATE) ?? []
  // Most answers hold one block and nothing else.
  if (blocks[0]?.length === pem.length - 1 && pem.endsWith('\n') && !pem.includes('\r')) return [pem]
  return blocks.map(block => `${block.replaceAll('\r\n', '\n')}\n`)
}

/** The DER bytes of the first PEM block, whatever its label; throws a `TypeError` if there is none. */
export function pemToDer(pem: string): Buffer {
  const base64 = /-----BEGIN [A-Z0-9 ]+-----([A-Za-z0-9+/=\s]+)-----END [A-Z0-9 ]+-----/.exec(pem)?.[1]
  if (base64 === undefined) throw new TypeError('Cannot decode PEM: it holds no "-----BEGIN …-----" block')
  return Buffer.from(base64, 'base64')
}

/** `der` as one PEM block with 64-character lines and a newline at the end. */
export function derToPem(der: Uint8Array, label: 'CERTIFICATE' | 'CERTIFICATE REQUEST'): string {
  const base64 = Buffer.from(der.buffer, der.byteOffset, der.byteLength).toString('base64')
  let lines = ''
  for (let start = 0; start < base64.length; start += LINE) lines += `${base64.slice(start, start + LINE)}\n`
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`
}

/** Whether a plugin, which may give anything, gave a list of text. */
export function isListOfText(list: unknown): list is readonly string[] {
  return Array.isArray(list) && list.every(element => typeof element === 'string')
}

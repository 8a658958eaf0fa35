/** PEM texts, also long ones: what is found is a block of the text, in time that grows with its length alone. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { derToPem, pemToDer, splitCertificates } from '../../src/x509/pem.ts'

const BEGIN = '-----BEGIN CERTIFICATE-----'
const END = '-----END CERTIFICATE-----'
const MAX_LENGTH = 1_000_000

const piece = fc.oneof(
  fc.constantFrom(
    BEGIN,
    END,
    '-----BEGIN ',
    '-----END ',
    '-----',
    '-',
    'PRIVATE KEY-----',
    '\n',
    '\r\n',
    ' ',
    '=',
    'MIIB',
  ),
  fc.base64String({ maxLength: 100 }),
  fc.string({ maxLength: 20 }),
)

export const inputs = fc.array(fc.record({ piece, times: fc.constantFrom(1, 1, 1, 1, 100, 20_000) }), { maxLength: 12 })

export function run(parts: readonly { readonly piece: string; readonly times: number }[]): void {
  const text = parts
    .map(each => each.piece.repeat(each.times))
    .join('')
    .slice(0, MAX_LENGTH)
  const unbroken = text.replaceAll('\r\n', '\n')
  for (const block of splitCertificates(text)) {
    assert.ok(block.startsWith(BEGIN) && block.endsWith(`${END}\n`))
    assert.ok(unbroken.includes(block.slice(0, -1)))
  }
  try {
    const der = pemToDer(text)
    assert.deepEqual(pemToDer(derToPem(der, 'CERTIFICATE')), der)
  } catch (error) {
    assert.ok(error instanceof TypeError, String(error))
  }
}

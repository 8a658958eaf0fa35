/** Texts of a peer on their way to a log: short, printable, without a key, in time that grows with their length alone. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import { escapePeerName } from '../../src/protocol/escape-peer-name.ts'
import { scrubPeerText } from '../../src/protocol/scrub-peer-text.ts'

const KEY = 'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg'
const piece = fc.oneof(
  fc.constantFrom(
    '-----',
    'BEGIN ',
    'PRIVATE KEY',
    'value: "',
    '\\x41',
    '12 34 ',
    '1, ',
    '%41%42',
    '\n',
    '\u001b[2J',
    KEY,
  ),
  fc.string({ maxLength: 12 }),
  fc.string({ unit: 'binary', maxLength: 12 }),
)

export const inputs = fc.array(fc.record({ piece, times: fc.constantFrom(1, 1, 1, 10, 20_000) }), { maxLength: 8 })

/** A peer may send a megabyte of them each second. */
export const maxCpuMs = 12

export function run(parts: readonly { readonly piece: string; readonly times: number }[]): void {
  const text = parts
    .map(each => each.piece.repeat(each.times))
    .join('')
    .slice(0, 262_144)
  for (const [kept, most] of [
    [scrubPeerText(text), 400],
    [escapePeerName(text), 4_096],
  ] as const) {
    assert.ok(
      kept.length <= Math.max(most, text.length > most ? most : 8 * text.length),
      `${kept.length} characters of ${text.length}`,
    )
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    assert.doesNotMatch(kept, /[\u0000-\u001f\u007f-\u009f]/)
  }
  assert.ok(!scrubPeerText(text).includes(KEY))
}

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { nodeCertificateVerifier } from '@livery/core'
import { derToPem } from '@livery/core/plugin'
import * as forge from '../test/certificate-forge.ts'
import { expectationOf, NO_PATH } from '../test/corpus/case.ts'
import { identity, leaf, makeIssuer, root } from '../test/corpus/certificates.ts'
import { corpus } from '../test/corpus/corpus.ts'
import { laterVerdictOf, pemOf, verdictOf } from '../test/verdict.ts'
import { lookup } from './addon.ts'
import { nativeCertificateVerifier } from './native-certificate-verifier.ts'

const native = nativeCertificateVerifier ?? nodeCertificateVerifier
const skip = lookup.addon ? false : lookup.reason

test('there is a native verifier exactly where there is the addon', () => {
  assert.equal(nativeCertificateVerifier === undefined, lookup.addon === undefined)
})

const cases = corpus()
/** So many chains of a turn of the event loop are read on another thread. */
const MANY = 3

for (const [what, answer] of Object.entries(cases)) {
  test(`${what}: ${answer.refused ? 'refused' : 'accepted'} natively`, { skip }, () => {
    const verdict = verdictOf(native, answer)
    if (answer.refused) assert.match(String(verdict), answer.refused)
    else assert.equal(typeof verdict, 'object', String(verdict))
  })

  test(`${what}: ${answer.refused && !answer.byAddonAlone ? 'refused' : 'accepted'} by Node`, () => {
    const verdict = verdictOf(nodeCertificateVerifier, answer)
    if (answer.refused && !answer.byAddonAlone) assert.match(String(verdict), answer.refused)
    else if (lookup.addon && !answer.refused) assert.deepEqual(verdict, verdictOf(native, answer))
    else assert.equal(typeof verdict, 'object', String(verdict))
  })
}

test('one root verifies by each algorithm that its key has signed with, and no signature of another key', {
  skip,
}, () => {
  const expected = expectationOf({})
  const namesake = makeIssuer('root')
  for (const scheme of [forge.ECDSA_SHA512, forge.ECDSA_SHA256, forge.ECDSA_SHA512]) {
    const signedBy = (issuer: forge.Signer) => [derToPem(leaf({ ...issuer, scheme }), 'CERTIFICATE')]
    const chain = signedBy(root)
    assert.equal(native.verify(chain, expected).chainPem, nodeCertificateVerifier.verify(chain, expected).chainPem)
    assert.throws(() => native.verify(signedBy(namesake), expected), NO_PATH)
  }
})

test('chains that wait together get the same answers as each alone, in the same words', { skip }, async () => {
  const all = Object.values(cases)
  const later = await Promise.all(all.map(answer => laterVerdictOf(native, answer)))
  assert.deepEqual(
    later,
    all.map(answer => verdictOf(native, answer)),
  )
})

for (const [count, where] of [
  [MANY - 1, 'the main thread'],
  [MANY, 'another'],
] as const) {
  test(`${count} chains of a turn are read on ${where}`, { skip }, async () => {
    let answers = 0
    const asked = Array.from({ length: count }, () => laterVerdictOf(native, { chain: [leaf(root)] }))
    for (const answer of asked) void answer.then(() => answers++)
    // Another thread's result comes in a later phase of the loop, however soon it is there.
    await nextTurn()
    assert.equal(answers, count === MANY ? 0 : count)
    assert.deepEqual(new Set((await Promise.all(asked)).map(verdict => typeof verdict)), new Set(['object']))
  })
}

test('more chains than fit on a page come with their own answers', { skip }, async () => {
  const good = cases['one intermediate']
  const other = Object.values(cases).find(({ refused }) => refused)
  assert.ok(good && other)
  const expected = [verdictOf(native, good), verdictOf(native, other)]
  const asked = Array.from({ length: 500 }, (_, index) => laterVerdictOf(native, index % 2 === 0 ? good : other))
  for (const [index, verdict] of (await Promise.all(asked)).entries()) assert.deepEqual(verdict, expected[index % 2])
})

test('what the caller changes after it has asked changes no answer', { skip }, async () => {
  const good = cases['one intermediate']
  assert.ok(good && native.verifyLater)
  const expected = expectationOf(good)
  assert.ok('publicKeyDer' in expected.key)
  const publicKeyDer = expected.key.publicKeyDer.slice()
  const chain = [...pemOf(good)]
  const answers = Array.from({ length: MANY }, () =>
    native.verifyLater?.(chain, { ...expected, key: { publicKeyDer } }),
  )
  publicKeyDer.fill(0)
  chain.fill('')
  for (const answer of await Promise.all(answers)) assert.equal(answer?.chainPem, pemOf(good).join(''))
})

test('a chain of 64 KiB is answered, in PEM again, with all its names', { skip }, async () => {
  const other = `spiffe://cluster.local/${'x'.repeat(47_000)}`
  const answer = { chain: [leaf(root, { extensions: [forge.subjectAltName(forge.uri(identity), forge.uri(other))] })] }
  assert.ok(pemOf(answer).join('').length > 64_000)
  const verdict = verdictOf(native, answer)
  assert.match(String(verdict), /it carries 2 URI names/)
  const later = await Promise.all(Array.from({ length: MANY }, () => laterVerdictOf(native, answer)))
  assert.deepEqual(
    later,
    Array.from({ length: MANY }, () => verdict),
  )
})

test('a process ends while chains wait, and is kept alive for one that is awaited', { skip }, async () => {
  const program = (last: string) => `
    import { nativeCertificateVerifier } from ${JSON.stringify(new URL('./native-certificate-verifier.ts', import.meta.url).href)}
    import { leaf, root } from ${JSON.stringify(new URL('../test/corpus/certificates.ts', import.meta.url).href)}
    import { laterVerdictOf } from ${JSON.stringify(new URL('../test/verdict.ts', import.meta.url).href)}
    const good = { chain: [leaf(root)] }
    const asked = () => laterVerdictOf(nativeCertificateVerifier, good)
    ${last}
  `
  const run = (last: string) =>
    promisify(execFile)(
      process.execPath,
      ['--conditions=@livery/source', '--input-type=module', '--eval', program(last)],
      { timeout: 60_000 },
    )
  const over = "process.once('beforeExit', () => console.log('over'))"
  const [early, awaited] = await Promise.all([
    run('for (let i = 0; i < 50; i++) void asked(); setImmediate(() => process.exit(0))'),
    // It ends by itself, too: nothing is left that keeps it alive.
    run(`${over}; console.log(typeof (await Promise.all([asked(), asked(), asked()]))[2])`),
  ])
  assert.deepEqual([early.stdout, awaited.stdout], ['', 'object\nover\n'])
})

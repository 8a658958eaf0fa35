import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Bench } from '../../test/manager-bench.ts'
import type { RootListener, RootSource } from '../contract/root-source.ts'
import { makeCrl, makeIssuer, type TestIssuer } from '../testing/test-ca.ts'

const START = Date.UTC(2026, 0, 1)
const HOUR = 3_600_000
const NAME = { kind: 'bundle', trustDomain: 'cluster.local' } as const

/** The file of an operator that a test changes. */
class CrlFile implements RootSource {
  readonly trustDomain: string
  readonly name = 'crl.pem'
  #text: string
  #listener: RootListener | undefined

  constructor(text: string, trustDomain = 'cluster.local') {
    this.trustDomain = trustDomain
    this.#text = text
  }

  open(listener: RootListener): Disposable {
    this.#listener = listener
    listener.listed([this.#text])
    return {
      [Symbol.dispose]: () => {
        this.#listener = undefined
      },
    }
  }

  write(text: string): void {
    this.#text = text
    this.#listener?.listed([text])
  }
}

const dates = { thisUpdate: START - HOUR, nextUpdate: START + 10 * HOUR }
const crlOf = (issuer: Pick<TestIssuer, 'subject' | 'key'>, ...serials: readonly string[]) =>
  makeCrl(issuer, serials, dates)

function served({ manager }: Bench): string {
  const item = manager.current(NAME)
  return item?.kind === 'bundle' && item.crl ? Buffer.from(item.crl).toString() : ''
}

/** PEM without white space, since it is encoded again. */
const same = (a: string, b: string) => assert.equal(a.replaceAll(/\s/g, ''), b.replaceAll(/\s/g, ''))

test('revocation lists are served beside the roots, and a change is another version', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  const root = bench.ca.newestRoot()
  const before = bench.manager.current(NAME)?.version
  const first = await crlOf(root, '4a01')
  const file = new CrlFile(first)
  bench.manager.useCrlSources([file])
  same(served(bench), first)
  assert.deepEqual(bench.last('crl-changed').uncovered, [])
  assert.equal(bench.last('crl-changed').nextUpdate, dates.nextUpdate)
  const version = bench.manager.current(NAME)?.version
  assert.notEqual(version, before)
  const pushed: (string | undefined)[] = []
  bench.manager.watch(NAME, item => pushed.push(item?.version))
  file.write(first)
  assert.deepEqual(pushed, [], 'the same again')
  const second = await crlOf(root, '4a01', '4a02')
  file.write(second)
  assert.equal(pushed.length, 1)
  same(served(bench), second)
  bench.manager.useCrlSources([])
  assert.equal(served(bench), '')
  assert.equal(bench.manager.current(NAME)?.version, before)
})

/** An entry of it has a list of no extensions: OpenSSL reads it, and BoringSSL refuses the whole list. */
const EMPTY_EXTENSIONS = `-----BEGIN X509 CRL-----
MIG7MGICAQEwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAxMBeBcNMjYxMTIyMTg1MjM5WhcNMjYxMTIyMTk1MjM5WjAlMCMCEFUq2CQ2Fx2w8z+MEtrlbmAXDTI2MTEyMjE4NTIzOVowADAKBggqhkjOPQQDAgNJADBGAiEAqpDKsV0bMYrVfsVz/GGcn0IT+h5USoI6IVeZ7dQpaXQCIQCVZ3AVTfu0txmi0DJLbPGVvtutC1P0bfh74WloO3F57g==
-----END X509 CRL-----
`

test('each trust domain has its own lists, and another one none of them', async () => {
  const other = await makeIssuer('CN=other', START)
  const roots = { trustDomain: 'other.example', name: 'other.pem', open: listing([other.pem]) }
  await using bench = await Bench.create({ rootSources: [roots] })
  await bench.until('roots-changed', 2)
  const [own, theirs] = [await crlOf(bench.ca.newestRoot(), '4a01'), await crlOf(other, '4a02')]
  bench.manager.useCrlSources([new CrlFile(own), new CrlFile(theirs, 'other.example')])
  const bundle = bench.manager.current({ kind: 'bundle', trustDomain: 'other.example' })
  assert.ok(bundle?.kind === 'bundle' && bundle.crl)
  same(Buffer.from(bundle.crl).toString(), theirs)
  same(served(bench), own)
  const all = bench.manager.current({ kind: 'all-bundles' })
  assert.ok(all?.kind === 'all-bundles')
  assert.deepEqual(
    all.bundles.map(({ bundle: { crl } }) => crl && Buffer.from(crl).toString()),
    [served(bench), Buffer.from(bundle.crl).toString()],
  )
  bench.manager.useCrlSources([new CrlFile(own)])
  const without = bench.manager.current({ kind: 'bundle', trustDomain: 'other.example' })
  assert.ok(without?.kind === 'bundle' && without.crl === undefined)
})

function listing(texts: readonly string[]): RootSource['open'] {
  return listener => {
    listener.listed(texts)
    return { [Symbol.dispose]() {} }
  }
}

test('a file that cannot be read keeps the lists before it, and is reported', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  const good = await crlOf(bench.ca.newestRoot())
  const file = new CrlFile(good)
  bench.manager.useCrlSources([file])
  const junk = '-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n'
  for (const [text, reason] of [
    ['', /no PEM block/],
    [good + junk, /list 2 in it is not a CRL/],
    [good + good.slice(0, 60), /ends within a list/],
    [EMPTY_EXTENSIONS, /list 1 in it is not a CRL/],
    [bench.ca.roots.join(''), /no PEM block/],
  ] as const) {
    file.write(text)
    assert.match(bench.last('crl-unavailable').reason, reason)
    same(served(bench), good)
  }
})

test('a list in the name of a root that has not signed it is left out, one of another issuer is served', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  const { subject } = bench.ca.newestRoot()
  const evil = await makeIssuer(subject, START)
  const below = await makeIssuer('CN=intermediate', START)
  const other = await crlOf(below)
  bench.manager.useCrlSources([new CrlFile((await crlOf(evil)) + other)])
  same(served(bench), other)
  assert.equal(bench.last('crl-changed').uncovered.length, 1)
})

test('a root without a list is reported with each change of roots or lists, until it has one', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  const file = new CrlFile(await crlOf(bench.ca.newestRoot()))
  const first = bench.ca.newestRoot()
  bench.manager.useCrlSources([file])
  assert.equal(bench.last('crl-changed').uncovered.length, 0)
  await bench.ca.addRoot()
  await bench.until('crl-changed', 2)
  assert.equal(bench.last('crl-changed').uncovered.length, 1)
  file.write((await crlOf(first)) + (await crlOf(bench.ca.newestRoot())))
  assert.equal(bench.last('crl-changed').uncovered.length, 0)
})

test('a list that is out of date is reported at its time', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  bench.manager.useCrlSources([new CrlFile(await crlOf(bench.ca.newestRoot()))])
  await bench.clock.advance(10 * HOUR - 1)
  assert.equal(bench.count('crl-unavailable'), 0)
  await bench.clock.advance(1)
  assert.match(bench.last('crl-unavailable').reason, /out of date since 2026-01-01T10:00:00/)
  assert.notEqual(served(bench), '', 'verifiers decide')
})

test('a list that counts only later is reported at once', async () => {
  await using bench = await Bench.create()
  await bench.until('roots-changed', 1)
  const later = { thisUpdate: START + HOUR, nextUpdate: START + 10 * HOUR }
  bench.manager.useCrlSources([new CrlFile(await makeCrl(bench.ca.newestRoot(), [], later))])
  assert.match(
    bench.last('crl-unavailable').reason,
    /counts from 2026-01-01T01:00:00.*verifiers refuse all peers until then/,
  )
})

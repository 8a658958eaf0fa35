import assert from 'node:assert/strict'
import { rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { WatchedFiles } from '../files/watched-files.ts'
import { makeIssuer } from '../testing/test-ca.ts'
import { SystemClock } from '../time/clock.ts'
import { pemToDer } from '../x509/pem.ts'
import { TrustFile } from './trust-file.ts'

const NOW = Date.UTC(2026, 0, 1)
const [a = '', b = ''] = (await Promise.all(['CN=a', 'CN=b'].map(name => makeIssuer(name, NOW)))).map(({ pem }) => pem)

/** The reports to a listener, in order; `next` resolves with the next one. */
class Heard {
  readonly #looks: (readonly string[] | string)[] = []
  #wake = Promise.withResolvers<void>()

  listed(roots: readonly string[]): void {
    this.#add(roots)
  }

  failed(reason: string): void {
    this.#add(reason)
  }

  async next(): Promise<readonly string[] | string> {
    while (this.#looks.length === 0) await this.#wake.promise
    return this.#looks.shift() ?? []
  }

  #add(look: readonly string[] | string): void {
    this.#looks.push(look)
    this.#wake.resolve()
    this.#wake = Promise.withResolvers()
  }
}

async function open(t: TestContext, content?: string) {
  const path = join(temporaryFolder(t), 'roots.pem')
  if (content !== undefined) await writeFile(path, content)
  const clock = new SystemClock()
  const watched = new WatchedFiles(clock, error => assert.fail(String(error)))
  const source = await TrustFile.open(path, 'cluster.local', watched)
  const heard = new Heard()
  const opened = source.open(heard)
  t.after(() => {
    opened[Symbol.dispose]()
    watched[Symbol.dispose]()
    clock[Symbol.dispose]()
  })
  return { path, heard }
}

test('the roots of a file are there when it is opened, and again when it changed', async t => {
  const { path, heard } = await open(t, `# ours\n${a}`)
  assert.deepEqual(await heard.next(), [a])
  await writeFile(`${path}.new`, a + b)
  await rename(`${path}.new`, path)
  assert.deepEqual(await heard.next(), [a, b])
  await writeFile(path, b)
  assert.deepEqual(await heard.next(), [b])
})

test('a file that is missing, cut off or without a certificate is a fault, and is read when it is whole', async t => {
  const { path, heard } = await open(t)
  assert.match(String(await heard.next()), /ENOENT/)
  await writeFile(path, a + b.slice(0, 200))
  assert.match(String(await heard.next()), /ends within a certificate/)
  await writeFile(path, 'nothing')
  assert.match(String(await heard.next()), /no PEM certificate/)
  await writeFile(path, a + b)
  assert.deepEqual(await heard.next(), [a, b])
  await rm(path)
  assert.match(String(await heard.next()), /ENOENT/)
})

test('a block that is not base64 is one root that cannot be used', async t => {
  const { heard } = await open(t, `${a}-----BEGIN CERTIFICATE-----\n-\n-----END CERTIFICATE-----\n${b}`)
  assert.deepEqual(await heard.next(), [a, b, ''])
})

test('a SPIFFE bundle is read too, its other keys are left out', async t => {
  const x5c = (pem: string) => [pemToDer(pem).toString('base64')]
  const keys = [
    { kty: 'EC', use: 'jwt-svid', kid: '1' },
    { kty: 'EC', use: 'x509-svid', x5c: x5c(a) },
    { kty: 'EC', use: 'x509-svid' },
    { kty: 'EC', use: 'x509-svid', x5c: [...x5c(a), ...x5c(b)] },
    null,
  ]
  const { path, heard } = await open(t, JSON.stringify({ keys, spiffe_refresh_hint: 60 }))
  assert.deepEqual(await heard.next(), [a, '', ''])
  await writeFile(path, '{ "keys": 5 }')
  assert.match(String(await heard.next()), /no list "keys"/)
  await writeFile(path, '{ "keys"')
  assert.match(String(await heard.next()), /neither PEM nor JSON/)
})

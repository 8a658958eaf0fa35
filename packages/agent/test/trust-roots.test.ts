/** Roots that the operator lists, as an Envoy of a running agent gets them. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeCrl, makeIssuer } from '@livery/core/testing'
import { TemporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const NAMES = ['a', 'b', 'c', 'd'] as const
const ISSUERS = await Promise.all(NAMES.map(name => makeIssuer(`CN=${name}`, Date.now())))
const PEMS = new Map(NAMES.map((name, index) => [name, ISSUERS[index]?.pem ?? '']))
const pem = (name: (typeof NAMES)[number]): string => PEMS.get(name) ?? ''

/** Which of the roots a bundle has; another one is the embedded CA's. */
function named(bundle: string | undefined): string {
  const all = bundle?.match(/-----BEGIN[^-]*-----[^-]*-----END CERTIFICATE-----\n/g) ?? []
  return all
    .map(one => NAMES.find(name => pem(name) === one) ?? 'CA')
    .sort()
    .join(' ')
}

class Bench implements AsyncDisposable {
  readonly folder: string
  readonly agent: LiveryProcess
  readonly socket: string
  readonly #parts: AsyncDisposableStack

  private constructor(folder: string, agent: LiveryProcess, parts: AsyncDisposableStack) {
    this.folder = folder
    this.agent = agent
    this.socket = join(folder, 'web.sock')
    this.#parts = parts
  }

  static async start(trust: object, files: Readonly<Record<string, string>>): Promise<Bench> {
    await using parts = new AsyncDisposableStack()
    const { path } = parts.use(new TemporaryFolder())
    for (const [name, content] of Object.entries(files)) await writeFile(join(path, name), content)
    writeConfig(path, trust)
    const agent = parts.use(new LiveryProcess(['run'], { cwd: path }))
    await agent.admin()
    return new Bench(path, agent, parts.move())
  }

  async bundle(name: string): Promise<string> {
    const [secret] = await fetchSecrets(this.socket, [name])
    return named(secret?.trustedCa)
  }

  async replace(file: string, content: string): Promise<void> {
    await writeFile(join(this.folder, `${file}.new`), content)
    await rename(join(this.folder, `${file}.new`), join(this.folder, file))
  }

  async text(path: string): Promise<string> {
    const answer = await fetch(`http://${await this.agent.admin()}${path}`)
    return await answer.text()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync()
  }
}

function writeConfig(folder: string, trust: object): void {
  const config = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id: 'spiffe://cluster.local/ns/default/sa/web', socket: 'web.sock' }],
    rotation: { settle: '0s' },
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
    trust,
  }
  writeFileSync(join(folder, 'livery.yaml'), JSON.stringify(config))
}

test('anchors are served beside the roots of the CA, and another trust domain has a bundle of its own', async () => {
  await using bench = await Bench.start(
    { anchors: ['roots.pem', pem('b')], federated: { 'other.example': { file: 'other.pem' } } },
    { 'roots.pem': pem('a'), 'other.pem': pem('c') },
  )
  assert.equal(await bench.bundle('ROOTCA'), 'CA a b')
  assert.equal(await bench.bundle('spiffe://cluster.local'), 'CA a b')
  assert.equal(await bench.bundle('spiffe://other.example'), 'c')
})

test('a file that changes is pushed, a bad root in it is left out and counted, an empty one changes nothing', async () => {
  await using bench = await Bench.start({ anchors: ['roots.pem'] }, { 'roots.pem': pem('a') })
  using stream = await openStream(bench.socket, ['ROOTCA'])
  assert.equal(named(stream.secrets[0]?.trustedCa), 'CA a')
  await bench.replace(
    'roots.pem',
    `${pem('a')}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${pem('b')}`,
  )
  await stream.answered(2)
  assert.equal(named(stream.answers[1]?.[0]?.trustedCa), 'CA a b')
  assert.match(await bench.text('/explain?name=ROOTCA'), /roots-rejected/)
  await bench.replace('roots.pem', '')
  await bench.agent.line(/"event":"roots-unavailable"/)
  assert.equal(await bench.bundle('ROOTCA'), 'CA a b')
  await bench.replace('roots.pem', pem('b'))
  await stream.answered(3)
  assert.equal(named(stream.answers[2]?.[0]?.trustedCa), 'CA b')
})

test('a reload adds and removes anchors and trust domains, without a restart', async () => {
  await using bench = await Bench.start({ anchors: ['roots.pem'] }, { 'roots.pem': pem('a'), 'other.pem': pem('c') })
  using stream = await openStream(bench.socket, ['ROOTCA'])
  writeConfig(bench.folder, { anchors: [pem('d')], federated: { 'other.example': { file: 'other.pem' } } })
  await bench.agent.line(/"msg":"reloaded: /)
  assert.equal(await bench.bundle('spiffe://other.example'), 'c')
  while (named(stream.answers.at(-1)?.[0]?.trustedCa) !== 'CA d') await stream.answered(stream.answers.length + 1)
  writeConfig(bench.folder, {})
  await bench.agent.lines(/"msg":"reloaded: /, 2)
  assert.equal(await bench.bundle('spiffe://other.example'), '')
  assert.doesNotMatch(bench.agent.stderr, /needs a restart/)
})

test('a reload adds and removes revocation lists, and a list that nobody can read is not served', async () => {
  await using bench = await Bench.start({ anchors: [pem('a')] }, {})
  const now = Date.now()
  const list = await makeCrl(ISSUERS[0] ?? assert.fail(), ['4a01'], {
    thisUpdate: now - 1_000,
    nextUpdate: now + 3_600_000,
  })
  await bench.replace('crl.pem', list)
  using stream = await openStream(bench.socket, ['ROOTCA'])
  assert.equal(stream.secrets[0]?.crl, '')
  writeConfig(bench.folder, { anchors: [pem('a')], crl: 'crl.pem' })
  await stream.answered(2)
  const sent = stream.answers[1]?.[0]
  assert.equal(sent?.crl.replaceAll(/\s/g, ''), list.replaceAll(/\s/g, ''))
  assert.match(
    await bench.text('/metrics'),
    /livery_crl_next_update_timestamp_seconds\{trust_domain="[a-z.]+"\} \d{10}/,
  )
  // The root of the embedded CA has none.
  assert.match(
    await bench.agent.line(/"event":"crl-changed"/),
    /verifiers refuse all peers under the root [0-9a-f]{12}, which has no list/,
  )
  await bench.replace('crl.pem', 'nothing')
  await bench.agent.line(/"event":"crl-unavailable".*no PEM block/)
  writeConfig(bench.folder, { anchors: [pem('a')] })
  await stream.answered(3)
  assert.equal(stream.answers[2]?.[0]?.crl, '')
})

test('an anchor that cannot be read at the start is reported, and served as soon as it is there', async () => {
  await using bench = await Bench.start({ anchors: ['late.pem'] }, {})
  await bench.agent.line(/"event":"roots-unavailable".*late\.pem.*ENOENT/)
  using stream = await openStream(bench.socket, ['ROOTCA'])
  assert.equal(named(stream.secrets[0]?.trustedCa), 'CA')
  await bench.replace('late.pem', pem('a'))
  await stream.answered(2)
  assert.equal(named(stream.answers[1]?.[0]?.trustedCa), 'CA a')
})

/** The store across versions: the form of the first release, as an own reader and writer of it has it, is read and is written. */
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Restarts } from '../../test/restarts.ts'
import { CAError } from '../contract/ca-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

/** As 0.1.0 does it. Frozen: it imports nothing of the store, and is changed only together with a new form. */
interface FrozenFile {
  readonly kind: string
  readonly facts: Readonly<Record<string, unknown>>
  readonly pem: string
}

function frozenRead(file: string): FrozenFile {
  const [, kind = '', digest, body = ''] =
    /^livery-store\/1 (certificate|roots|pending) ([0-9a-f]{64})\n(.*)$/s.exec(file) ?? []
  assert.equal(hash('sha256', body), digest)
  const end = body.indexOf('\n')
  return { kind, facts: JSON.parse(body.slice(0, end)), pem: body.slice(end + 1) }
}

function frozenWrite({ kind, facts, pem }: FrozenFile): string {
  const body = `${JSON.stringify(facts)}\n${pem}`
  return `livery-store/1 ${kind} ${hash('sha256', body)}\n${body}`
}

/** The fields that 0.1.0 requires in a file; it ignores others. */
const FACTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  certificate: { identity: 'string', receivedAt: 'number', place: 'number', isProvisional: 'boolean' },
  roots: { trustDomain: 'string', roots: 'object' },
}

async function eachFile(restarts: Restarts, change: (file: string) => string): Promise<void> {
  for (const name of await readdir(restarts.directory)) {
    const path = join(restarts.directory, name)
    await writeFile(path, change(await readFile(path, 'utf8')))
  }
}

function takeDown({ ca }: Restarts): void {
  const down = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  ca.answer = down
  ca.trustBundle = down
}

test('back: what is written now is read by 0.1.0', async () => {
  await using restarts = await Restarts.create()
  await restarts.runOnce(WEB)
  const kinds: string[] = []
  await eachFile(restarts, text => {
    const { kind, facts, pem } = frozenRead(text)
    kinds.push(kind)
    for (const [fact, type] of Object.entries(FACTS[kind] ?? {})) assert.equal(typeof facts[fact], type, fact)
    if (kind === 'certificate')
      assert.match(pem, /^-----BEGIN PRIVATE KEY-----\n[^-]+-----END PRIVATE KEY-----\n-----BEGIN CERTIFICATE-----/)
    else assert.match(pem, /^-----BEGIN CERTIFICATE-----/)
    return text
  })
  assert.deepEqual(kinds.sort(), ['certificate', 'roots'])
})

test('forth: what 0.1.0 has written is served, without a word to the CA', async () => {
  await using restarts = await Restarts.create()
  const serials = await restarts.runOnce(WEB)
  await eachFile(restarts, text => {
    const { kind, facts, pem } = frozenRead(text)
    const known = Object.keys(FACTS[kind] ?? {})
    return frozenWrite({ kind, facts: Object.fromEntries(known.map(fact => [fact, facts[fact]])), pem })
  })
  takeDown(restarts)
  await using run = await restarts.start()
  assert.deepEqual([(await run.bench.add(WEB)).serialNumber], serials)
  assert.equal(run.bench.last('restored').from, 'store')
})

test('a form that is not known yet is started from clean, with the reason, and replaced once the CA has answered', async () => {
  await using restarts = await Restarts.create()
  const serials = await restarts.runOnce(WEB)
  await eachFile(restarts, text => text.replace('livery-store/1', 'livery-store/2'))
  {
    await using run = await restarts.start()
    assert.match(run.store.warnings.join(), /another version/)
    assert.notDeepEqual([(await run.bench.add(WEB)).serialNumber], serials)
    assert.match(run.bench.last('not-restored').reason, /another version/)
  }
  takeDown(restarts)
  await using run = await restarts.start()
  await run.bench.add(WEB)
  assert.equal(run.bench.last('restored').from, 'store')
})

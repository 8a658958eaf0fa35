/** Files of the store after damage, sealed or with a checksum that fits or not: what is served from them was checked like an answer. */
import assert from 'node:assert/strict'
import { createPrivateKey, hash, X509Certificate } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { CAError } from '../../src/contract/ca-client.ts'
import { StoreError } from '../../src/contract/store.ts'
import type { CertificateSecret } from '../../src/secrets/certificate-secret.ts'
import type { SpiffeId } from '../../src/spiffe/spiffe-id.ts'
import { privateKeyOf } from '../../src/testing/reveal-key.ts'
import { Restarts } from '../restarts.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'

const plain = await openBed()
const sealed = await openBed(7)

async function openBed(keyByte?: number) {
  const restarts = await Restarts.create()
  if (keyByte !== undefined) await restarts.seal(keyByte)
  await restarts.runOnce(WEB, API)
  restarts.ca.answer = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  restarts.ca.trustBundle = () => Promise.reject(new CAError('unavailable', 'the CA is down'))
  const names = readdirSync(restarts.directory).sort()
  const files = names.map(name => readFileSync(join(restarts.directory, name)))
  return { restarts, names, files, roots: restarts.ca.roots.map(pem => new X509Certificate(pem)) }
}

const edit = fc.record({
  kind: fc.constantFrom('byte', 'insert', 'delete', 'cut', 'double', 'other' as const),
  at: fc.nat(4_000),
  bytes: fc.oneof(
    fc.uint8Array({ maxLength: 8 }),
    fc.constantFrom('\n', '{', '}', '"', '-----', '1e999', 'null').map(text => Buffer.from(text)),
  ),
})

export const inputs = fc.record({
  file: fc.nat(5),
  edits: fc.array(edit, { minLength: 1, maxLength: 3 }),
  form: fc.constantFrom('damaged', 'signed', 'sealed' as const),
})

/** It writes three files, starts a manager and verifies what they hold. */
export const maxCpuMs = 300

type Input = typeof inputs extends fc.Arbitrary<infer T> ? T : never

export async function run({ file, edits, form }: Input): Promise<void> {
  const { restarts, names, files, roots } = form === 'sealed' ? sealed : plain
  for (const [index, name] of names.entries()) {
    const original = files[index] ?? Buffer.alloc(0)
    const isDamaged = index === file % names.length
    const damaged = isDamaged ? edits.reduce<Buffer>((before, each) => edited(before, each, files), original) : original
    writeFileSync(join(restarts.directory, name), form === 'signed' && isDamaged ? withChecksum(damaged) : damaged)
  }
  restarts.ca.requests.length = 0
  const started = await restarts.start().catch((error: unknown) => {
    assert.ok(error instanceof StoreError && names[file % names.length] === 'store.sealed', String(error))
  })
  if (!started) return
  await using _ = started
  for (const identity of [WEB, API]) {
    started.bench.manager.add(identity)
    const item = await settled(started.bench, identity)
    if (item) checkServed(item, { identity, roots, now: restarts.clock.now() })
  }
}

async function settled(bench: Awaited<ReturnType<Restarts['start']>>['bench'], identity: SpiffeId) {
  const isSettled = () =>
    bench.events.some(
      ({ name, event }) => name === identity && (event.kind === 'restored' || event.kind === 'ca-error'),
    )
  while (!isSettled()) await new Promise(setImmediate)
  return bench.served(identity)
}

function checkServed(
  item: CertificateSecret,
  {
    identity,
    roots,
    now,
  }: { readonly identity: SpiffeId; readonly roots: readonly X509Certificate[]; readonly now: number },
): void {
  const leaf = new X509Certificate(item.certificateChain)
  assert.equal(leaf.subjectAltName, `URI:${identity}`)
  assert.ok(leaf.checkPrivateKey(createPrivateKey(privateKeyOf(item))))
  assert.ok(roots.some(root => leaf.checkIssued(root) && leaf.verify(root.publicKey)))
  assert.ok(item.notAfter > now)
}

function edited(file: Buffer, { kind, at, bytes }: Input['edits'][number], files: readonly Buffer[]): Buffer {
  const position = file.length === 0 ? 0 : at % file.length
  const [before, after] = [file.subarray(0, position), file.subarray(position)]
  switch (kind) {
    case 'byte':
      return Buffer.concat([before, bytes, after.subarray(bytes.length)])
    case 'insert':
      return Buffer.concat([before, bytes, after])
    case 'delete':
      return Buffer.concat([before, after.subarray(1 + bytes.length)])
    case 'cut':
      return before
    case 'double':
      return Buffer.concat([file, after])
    case 'other':
      return files[at % files.length] ?? file
  }
}

/** As an attacker who can write the file would do it. */
function withChecksum(file: Buffer): Buffer {
  const end = file.indexOf('\n')
  const body = file.subarray(end + 1)
  const [form = '', kind = ''] = file.toString('latin1', 0, Math.max(end, 0)).split(' ')
  return Buffer.concat([Buffer.from(`${form} ${kind} ${hash('sha256', body)}\n`, 'latin1'), body])
}

/** Key + CSR: native against WebCrypto, one at a time, 64 in flight, and in batches. */
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { createPrivateKey, createPublicKey } from 'node:crypto'
import type { GeneratedKey, KeyGenerator, KeyRequest, KeyType } from '@livery/core/plugin'
import { createKeyGenerator } from '@livery/native-keygen'
import { Pkcs10CertificateRequest } from '@peculiar/x509'
import { Bench } from 'tinybench'
import { cpuFlags } from './peers/proc.ts'
import { type Figure, figure } from './report.ts'

const identity = 'spiffe://cluster.local/ns/default/sa/bench'
/** The keys of one batch: enough for every thread, few enough for the slowest case to end. */
const BATCH: Readonly<Record<string, number>> = { 'native ecdsa-p256': 1_000, 'webcrypto ecdsa-p256': 64 }

export async function measureKeys(types: readonly KeyType[], timeMs: number): Promise<Figure[]> {
  const { generator: native, reason } = createKeyGenerator()
  const { generator: webcrypto } = createKeyGenerator({ prefer: 'webcrypto' })
  if (reason) process.stderr.write(`SKIPPED native rows: ${reason}\n`)
  const generators = native.name === webcrypto.name ? [webcrypto] : [native, webcrypto]
  const figures: Figure[] = []
  for (const type of types) {
    const path = type.startsWith('rsa') ? rsaPath() : ''
    const bench = new Bench({ time: timeMs, iterations: 5, warmupIterations: 1, throws: true })
    const counts = new Map<string, number>()
    for (const generator of generators) await addTasks(bench, counts, generator, { type, identity })
    await bench.run()
    for (const task of bench.tasks) {
      const keys = counts.get(task.name) ?? 1
      const { result } = task
      assert.ok(result.state === 'completed')
      const samples = [...(result.latency.samples ?? [])].map(ms => (keys * 1_000) / ms)
      figures.push(figure(`${type} key + CSR`, task.name.replace(/^native/, `native${path}`), 'keys/s', samples))
    }
  }
  return figures
}

/** The engine with which the addon searches primes on this CPU. */
function rsaPath(): string {
  if (process.platform !== 'linux') return ''
  if (cpuFlags(['avx512ifma']).length > 0) return ' (AVX-512 IFMA)'
  return cpuFlags(['avx2']).length > 0 ? ' (AVX2)' : ' (portable)'
}

async function addTasks(
  bench: Bench,
  counts: Map<string, number>,
  generator: KeyGenerator,
  request: KeyRequest,
): Promise<void> {
  await assertGoodKey(await generator.generate(request), request)
  const size = BATCH[`${generator.name} ${request.type}`] ?? 8
  const batch = Array.from({ length: size }, () => request)
  for (const key of await generator.generateBatch(batch.slice(0, 4))) await assertGoodKey(key, request)

  const add = (name: string, keys: number, run: () => Promise<unknown>) => {
    counts.set(name, keys)
    bench.add(name, async () => void (await run()), { retainSamples: true })
  }
  add(`${generator.name}, one at a time`, 1, () => generator.generate(request))
  const inFlight = Math.min(size, 64)
  add(`${generator.name}, ${inFlight} in flight`, inFlight, () =>
    Promise.all(Array.from({ length: inFlight }, () => generator.generate(request))),
  )
  add(`${generator.name}, batch of ${size.toLocaleString('en-US')}`, size, () => generator.generateBatch(batch))
}

/** Timing a wrong result is worth nothing: the key signs the CSR, and is of the requested type. */
export async function assertGoodKey(key: GeneratedKey, { type }: KeyRequest): Promise<void> {
  const csr = new Pkcs10CertificateRequest(key.csrDer)
  assert.ok(await csr.verify(), 'the CSR is not signed by its key')
  const privateKey = createPrivateKey({ key: Buffer.from(key.privateKeyPem), format: 'pem' })
  const spki = createPublicKey(privateKey).export({ type: 'spki', format: 'der' })
  assert.deepEqual(spki, Buffer.from(key.publicKeyDer))
  assert.equal(privateKey.asymmetricKeyType, type.startsWith('rsa') ? 'rsa' : 'ec')
}

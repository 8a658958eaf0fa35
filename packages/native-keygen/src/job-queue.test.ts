import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import type { KeyRequest, SpiffeId } from '@livery/core/plugin'
import { type Addon, lookup } from './addon.ts'
import { createKeyGenerator } from './create-key-generator.ts'
import { JobQueue } from './job-queue.ts'

const skip = lookup.addon ? false : lookup.reason
const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const RSA: KeyRequest = { type: 'rsa-4096', identity: WEB }
const ECDSA: KeyRequest = { type: 'ecdsa-p256', identity: WEB }
const HERE = fileURLToPath(import.meta.url)

/** The common start of the programs. */
const PREAMBLE = `
  import { createKeyGenerator } from ${JSON.stringify(new URL('./create-key-generator.ts', import.meta.url).href)}
  const { generator } = createKeyGenerator()
  const ask = type => generator.generate({ type, identity: '${WEB}' })
  const askForMany = () => generator.generateBatch(Array(100).fill({ type: 'rsa-4096', identity: '${WEB}' }))
`

function run(program: string) {
  const options = ['--conditions=@livery/source', '--input-type=module', '--eval', PREAMBLE + program]
  return promisify(execFile)(process.execPath, options, { timeout: 60_000 })
}

test('files are read while more RSA keys are made than libuv has threads', { skip }, async () => {
  const controller = new AbortController()
  let made = 0
  const keys = Array.from({ length: 8 }, async () => {
    await createKeyGenerator().generator.generate(RSA, controller)
    made += 1
  })
  const all = Promise.allSettled(keys)
  await readFile(HERE)
  assert.ok(made < 8, 'the file came first')
  controller.abort()
  await all
})

test('a single key does not wait behind a batch of RSA keys', { skip }, async () => {
  const { generator } = createKeyGenerator()
  const controller = new AbortController()
  const batch = generator.generateBatch(
    Array.from({ length: 500 }, () => RSA),
    controller,
  )
  const winner = await Promise.race([batch.then(() => 'batch'), generator.generate(ECDSA).then(() => 'single')])
  assert.equal(winner, 'single')
  controller.abort()
  await assert.rejects(batch, { name: 'AbortError' })
})

test('a request that the addon refuses takes none of its turn along, and keeps no program alive', {
  skip,
}, async () => {
  const { stdout } = await run(`
    import { lookup } from ${JSON.stringify(new URL('./addon.ts', import.meta.url).href)}
    import { jobQueueOf } from ${JSON.stringify(new URL('./job-queue.ts', import.meta.url).href)}
    const queue = jobQueueOf(lookup.addon)
    const askAddon = identity => queue.generate({ type: 'ecdsa-p256', identity, dnsNames: [], format: 'pkcs8' }, 'library')
    const asked = ['${WEB}', 'spiffe://cluster.local/not printable', '${WEB}'].map(askAddon)
    for (const { value, reason } of await Promise.allSettled(asked)) console.log(value ? 'made' : reason.code)
    process.once('beforeExit', () => console.log('over'))
  `)
  assert.equal(stdout, 'made\nInvalidArg\nmade\nover\n')
})

test('a batch fails with its first problem, and what is left of it is cancelled', { skip }, async () => {
  const { addon } = lookup
  assert.ok(addon)
  const calls: string[] = []
  class Spied extends addon.JobQueue {
    override generateKeys(...request: Parameters<InstanceType<Addon['JobQueue']>['generateKeys']>) {
      calls.push(`make ${request[0]}`)
      return super.generateKeys(...request)
    }
    override cancel(job: number) {
      calls.push(`cancel ${job}`)
      super.cancel(job)
    }
  }
  const queue = new JobQueue({ ...addon, JobQueue: Spied })
  const identities: SpiffeId[] = Array(200).fill(WEB)
  identities[100] = 'spiffe://cluster.local/not printable'
  const requests = identities.map(identity => ({ ...RSA, identity, dnsNames: [], format: 'pkcs8' }) as const)
  await assert.rejects(queue.generateBatch(requests, 'library'), { code: 'InvalidArg' })
  assert.deepEqual(calls, ['make 1', 'make 2', 'cancel 1'])
})

test('a program ends when its keys are given up, though they are not made', { skip }, async () => {
  const { stdout } = await run(`
    const controller = new AbortController()
    const requests = Array(10_000).fill({ type: 'rsa-4096', identity: '${WEB}' })
    const batch = generator.generateBatch(requests, controller)
    setImmediate(() => controller.abort(new Error('given up')))
    await batch.catch(error => console.log(error.message))
    process.once('beforeExit', () => console.log('over'))
  `)
  assert.equal(stdout, 'given up\nover\n')
})

test('ten thousand keys of one batch are all different and come in slices', { skip }, async () => {
  const { generator } = createKeyGenerator()
  let turns = 0
  let running = true
  const count = () => {
    turns += 1
    if (running) setImmediate(count)
  }
  count()
  const keys = await generator.generateBatch(Array.from({ length: 10_000 }, () => ECDSA))
  running = false
  assert.equal(new Set(keys.map(key => Buffer.from(key.publicKeyDer).toString('hex'))).size, 10_000)
  assert.ok(turns > 100, `${turns} turns of the event loop`)
})

test('a program that nothing else keeps alive gets its keys', { skip }, async () => {
  const { stdout } = await run(`
    ask('rsa-2048').then(() => console.log('first')).then(() => ask('ecdsa-p256')).then(() => console.log('second'))
  `)
  assert.equal(stdout, 'first\nsecond\n')
})

test('a program can exit in the middle of its keys', { skip }, async () => {
  const { stdout } = await run(`
    askForMany()
    await ask('ecdsa-p256')
    console.log('done')
    process.exit(0)
  `)
  assert.equal(stdout, 'done\n')
})

test('a worker thread can end in the middle of its keys, and others get theirs', { skip }, async () => {
  const program = `${PREAMBLE}
    import { parentPort } from 'node:worker_threads'
    askForMany()
    await ask('ecdsa-p256')
    parentPort.postMessage('at work')
    setInterval(() => {}, 1000)
  `
  const url = new URL(`data:text/javascript,${encodeURIComponent(program)}`)
  const workers = [0, 1].map(() => new Worker(url, { execArgv: ['--conditions=@livery/source'] }))
  await Promise.all(workers.map(worker => once(worker, 'message')))
  await Promise.all(workers.map(worker => worker.terminate()))
  const key = await createKeyGenerator().generator.generate(ECDSA)
  assert.ok(key.privateKeyPem.length > 0)
})

test('a key has its memory for itself: no other key is behind it', { skip }, async () => {
  const { generator } = createKeyGenerator()
  for (const key of await generator.generateBatch([ECDSA, ECDSA, ECDSA]))
    assert.equal(key.privateKeyPem.buffer.byteLength, key.privateKeyPem.length)
})

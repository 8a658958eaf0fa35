import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'
import { SealedKey } from '@livery/core'
import { lookup } from './addon.ts'
import { createKeyVault } from './native-key-vault.ts'

const skip = lookup.addon ? false : 'the addon is not built: run npm run native'
const PEM = `-----BEGIN PRIVATE KEY-----\n${'canary'.repeat(10)}\n-----END PRIVATE KEY-----\n`
const { vault } = createKeyVault()

function sealed(): Uint8Array {
  const bytes = new Uint8Array(PEM.length + vault.overhead)
  vault.seal(Buffer.from(PEM), bytes)
  return bytes
}

test('a sealed key does not show what it was, and is opened in its place', { skip }, () => {
  const bytes = sealed()
  assert.ok(vault.overhead > 0)
  for (let start = 0; start + 4 <= PEM.length; start++)
    assert.equal(Buffer.from(bytes).includes(PEM.slice(start, start + 4)), false)
  const target = Buffer.alloc(PEM.length + 10)
  vault.unseal(bytes, target, 7)
  assert.equal(target.toString(), `${'\0'.repeat(7)}${PEM}${'\0'.repeat(3)}`)
})

test('the same key sealed twice is not the same', { skip }, () => {
  assert.notDeepEqual(sealed(), sealed())
})

test('a sealed key that was changed or wiped is refused, and its target stays zero', { skip }, () => {
  const target = Buffer.alloc(PEM.length)
  for (const change of [
    (bytes: Uint8Array) => bytes.fill(0),
    (bytes: Uint8Array) => bytes.fill(1, -1),
    (bytes: Uint8Array) => bytes.fill(255, 0, 1),
  ]) {
    const bytes = sealed()
    change(bytes)
    assert.throws(() => vault.unseal(bytes, target, 0), /did not seal it, or it was wiped/)
    assert.ok(target.every(byte => byte === 0))
  }
})

test('buffers that do not fit, or lie over each other, are refused', { skip }, () => {
  const bytes = sealed()
  const fits = Buffer.alloc(PEM.length)
  for (const use of [
    () => vault.seal(Buffer.from(PEM), new Uint8Array(PEM.length)),
    () => vault.seal(Buffer.from(PEM), new Uint8Array(PEM.length + vault.overhead + 1)),
    () => vault.unseal(bytes, fits, 1),
    () => vault.unseal(bytes, fits, 2 ** 32 - 1),
    () => vault.unseal(bytes.subarray(0, 5), fits, 0),
    () => vault.unseal(bytes, bytes, 0),
    () => vault.seal(bytes.subarray(vault.overhead), bytes),
  ])
    assert.throws(use, /wrong length/)
})

test("a sealed key is core's, and its wiped form opens no more", { skip }, () => {
  const key = new SealedKey(vault, Buffer.from(PEM))
  assert.equal(
    key.open(bytes => Buffer.from(bytes).toString()),
    PEM,
  )
  key.wipe()
  assert.throws(() => key.open(() => {}), /it was wiped/)
})

test('the threads of a process share one vault', { skip }, async () => {
  const source = `
    import { parentPort, workerData } from 'node:worker_threads'
    const { createKeyVault } = await import(workerData.module)
    const { vault } = createKeyVault()
    const target = new Uint8Array(workerData.length)
    vault.unseal(workerData.bytes, target, 0)
    parentPort.postMessage(Buffer.from(target).toString())`
  const module = new URL('native-key-vault.ts', import.meta.url).href
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(source)}`), {
    workerData: { bytes: sealed(), length: PEM.length, module },
  })
  const { promise, resolve, reject } = Promise.withResolvers<unknown>()
  worker.once('message', resolve)
  worker.once('error', reject)
  assert.equal(await promise, PEM)
})

const isRoot = process.platform === 'linux' && process.geteuid?.() === 0

test('where no memory can be locked, keys are sealed all the same, and it is said why and what to do', {
  skip: skip || (isRoot ? false : 'only root can start a process of another user, whose limit counts'),
}, t => {
  const module = new URL('native-key-vault.ts', import.meta.url).href
  const script = `const { createKeyVault } = await import(${JSON.stringify(module)})
      const { vault, reason, remedy } = createKeyVault()
      console.log(JSON.stringify({ overhead: vault.overhead, warning: \`\${reason}. \${remedy}\` }))`
  const child = spawnSync(
    'sh',
    [
      '-c',
      'ulimit -l 0 && exec "$@"',
      'sh',
      process.execPath,
      ...process.execArgv,
      '--input-type=module',
      '-e',
      script,
    ],
    { uid: 65_534, gid: 65_534, encoding: 'utf8', cwd: '/' },
  )
  if (/EACCES|Permission denied|EPERM/.test(child.stderr)) {
    t.skip('another user cannot read this repository')
    return
  }
  const { overhead, warning } = JSON.parse(child.stdout)
  assert.equal(overhead, vault.overhead)
  assert.match(warning, /mlock was refused\. Raise the limit of locked memory \(RLIMIT_MEMLOCK/)
  assert.equal(createKeyVault().reason, undefined)
})

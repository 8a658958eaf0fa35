import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { type KeyVault, plainKeyVault, SealedKey } from './key-vault.ts'

const PEM = '-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n'

/** Remembers the very bytes in which keys are kept, and those in which they were opened. */
function recording(): { readonly vault: KeyVault; readonly kept: Uint8Array[]; readonly opened: Uint8Array[] } {
  const kept: Uint8Array[] = []
  const opened: Uint8Array[] = []
  const vault: KeyVault = {
    overhead: 4,
    seal(key, sealed) {
      sealed.set(key.map(byte => byte ^ 0xaa))
      kept.push(sealed)
    },
    unseal(sealed, target, offset) {
      target.set(
        sealed.subarray(0, -4).map(byte => byte ^ 0xaa),
        offset,
      )
      opened.push(target)
    },
  }
  return { vault, kept, opened }
}

const isZero = (bytes: Uint8Array | undefined) => bytes?.every(byte => byte === 0)

test('a key is kept sealed, and the bytes that it came in are wiped', () => {
  const { vault, kept } = recording()
  const handedIn = Buffer.from(PEM)
  const key = new SealedKey(vault, handedIn)
  assert.ok(isZero(handedIn))
  assert.deepEqual([key.byteLength, kept.length, kept[0]?.length], [PEM.length, 1, PEM.length + 4])
  assert.equal(Buffer.from(kept[0] ?? []).includes('canary'), false)
  const target = Buffer.alloc(PEM.length + 2)
  key.copyTo(target, 1)
  assert.equal(target.toString(), `\0${PEM}\0`)
})

test('an opened key is wiped after use, also after a use that throws', () => {
  const { vault, opened } = recording()
  const key = new SealedKey(vault, Buffer.from(PEM))
  assert.equal(
    key.open(bytes => Buffer.from(bytes).toString()),
    PEM,
  )
  assert.throws(() => {
    key.open(() => {
      throw new Error('used')
    })
  }, /used/)
  assert.equal(opened.length, 2)
  assert.ok(opened.every(isZero))
})

test('a wiped key is gone for every use, and its clone is not', () => {
  const { vault, kept } = recording()
  const key = new SealedKey(vault, Buffer.from(PEM))
  const clone = key.clone()
  key.wipe()
  assert.ok(isZero(kept[0]))
  assert.equal(key.isWiped, true)
  assert.throws(() => key.copyTo(Buffer.alloc(100), 0), /it was wiped/)
  assert.throws(() => key.open(() => {}), /it was wiped/)
  assert.throws(() => key.clone(), /it was wiped/)
  key.wipe()
  assert.equal(
    clone.open(bytes => Buffer.from(bytes).toString()),
    PEM,
  )
})

test('a key that cannot be sealed is wiped all the same', () => {
  const failing = {
    ...plainKeyVault,
    seal() {
      throw new Error('no room')
    },
  }
  const handedIn = Buffer.from(PEM)
  assert.throws(() => new SealedKey(failing, handedIn), /no room/)
  assert.ok(isZero(handedIn))
})

test('a key shows nothing of itself, however it is printed or serialised', () => {
  const key = new SealedKey(plainKeyVault, Buffer.from(PEM))
  const shown = [key, structuredClone(key)].map(each => inspect(each, { depth: 9, showHidden: true }))
  const texts = [...shown, JSON.stringify([key, structuredClone(key)]), `${key}`]
  for (const text of texts) assert.doesNotMatch(text, /canary|BEGIN|45,\s*45/)
})

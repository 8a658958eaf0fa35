/** Secrets in objects: which fields are taken, and what follows when an object changes, is broken or goes. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { CAError } from '../contract/ca-client.ts'
import { plainKeyVault } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { FileSecretName, KubernetesObject } from '../secrets/secret-name.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { PairIssuer } from '../testing/pair-issuer.ts'
import { FileSecrets } from './file-secrets.ts'
import type { FollowedObject, SecretObjects } from './object-place.ts'

const ID = 'spiffe://cluster.local/ns/default/sa/web'
const WEB: FileSecretName = { kind: 'kubernetes-pair', namespace: 'edge', name: 'web' }
const ROOTS: FileSecretName = { kind: 'kubernetes-roots', namespace: 'edge', name: 'web' }

type Fields = Readonly<Record<string, string>>

/** Secrets of the namespace edge, in memory. */
class Secrets implements SecretObjects {
  readonly room = 256
  readonly objects = new Map<string, Fields>()
  readonly handedOut: Buffer[] = []
  fault: CAError | undefined
  follows = 0
  readonly #followers = new Map<string, Set<() => void>>()

  refusal({ namespace }: KubernetesObject): string | undefined {
    return namespace === 'edge' ? undefined : 'is elsewhere'
  }

  follow({ name }: KubernetesObject, onChange: () => void): FollowedObject {
    this.follows++
    const followers = this.#followers.get(name) ?? new Set()
    this.#followers.set(name, followers.add(onChange))
    return {
      read: async fields => this.#read(name, fields),
      [Symbol.dispose]: () => followers.delete(onChange),
    }
  }

  get followers(): number {
    return [...this.#followers.values()].reduce((sum, { size }) => sum + size, 0)
  }

  put(name: string, fields: Fields | undefined): void {
    if (fields) this.objects.set(name, fields)
    else this.objects.delete(name)
    for (const call of this.#followers.get(name) ?? []) call()
  }

  #read(name: string, fields: readonly string[]): ReadonlyMap<string, Buffer> | undefined {
    if (this.fault) throw this.fault
    const object = this.objects.get(name)
    if (!object) return undefined
    const found = new Map(fields.flatMap(field => (object[field] ? [[field, Buffer.from(object[field])]] : [])))
    this.handedOut.push(...found.values())
    return found
  }
}

async function setUp(t: TestContext) {
  const clock = new FakeClock()
  const objects = new Secrets()
  const events: SecretEvent[] = []
  const items: (SecretItem | undefined)[] = []
  const files = new FileSecrets({
    clock,
    vault: plainKeyVault,
    folders: [],
    objects,
    onWatchError: error => assert.fail(String(error)),
    report: (_, event) => events.push(event),
  })
  t.after(() => files[Symbol.dispose]())
  const until = async (count: number): Promise<SecretEvent | undefined> => {
    while (events.length < count) await new Promise(setImmediate)
    return events[count - 1]
  }
  const served = (name: FileSecretName = WEB): string | undefined => {
    const item = files.current(name)
    return item?.kind === 'certificate' ? item.certificateChain.toString() : item?.version
  }
  const watch = (name: FileSecretName = WEB) => {
    const subscription = files.subscribe(name, item => items.push(item))
    t.after(() => subscription[Symbol.dispose]())
  }
  return { clock, objects, events, items, files, until, served, watch, issuer: await PairIssuer.create(clock) }
}

test("Istio's own fields go before a TLS Secret's, an empty one does not count, and nothing of them stays in memory", async t => {
  const { objects, until, served, watch, issuer } = await setUp(t)
  const [own, tls] = [await issuer.issue(ID), await issuer.issue(ID)]
  const ofTls = { 'tls.crt': tls.chain.join(''), 'tls.key': tls.key }
  objects.put('web', { ...ofTls, cert: own.chain.join(''), key: own.key })
  watch()
  await until(1)
  assert.equal(served(), own.chain.join(''))
  objects.put('web', { ...ofTls, cert: own.chain.join(''), key: '' })
  await until(2)
  assert.equal(served(), tls.chain.join(''))
  assert.equal(objects.handedOut.length, 7)
  assert.ok(objects.handedOut.every(bytes => bytes.every(byte => byte === 0)))
})

test('roots come from the Secret with -cacert, then from the pair, cacert before ca.crt', async t => {
  const { objects, until, served, watch, issuer } = await setUp(t)
  const [first, second, third] = [issuer.root, (await setUp(t)).issuer.root, (await setUp(t)).issuer.root]
  objects.put('web', { 'ca.crt': first })
  watch(ROOTS)
  await until(1)
  const versions = [served(ROOTS)]
  objects.put('web', { 'ca.crt': first, cacert: second })
  await until(2)
  versions.push(served(ROOTS))
  objects.put('web-cacert', { 'ca.crt': third })
  await until(3)
  versions.push(served(ROOTS))
  assert.equal(new Set(versions).size, 3)
  objects.put('web-cacert', undefined)
  await until(4)
  assert.equal(served(ROOTS), versions[1])
})

test('a broken pair, and an API server that does not answer, replace nothing, and the reason is reported at once', async t => {
  const { objects, events, until, served, watch, issuer } = await setUp(t)
  const [before, after] = [await issuer.issue(ID), await issuer.issue(ID)]
  const [cert, key] = [before.chain.join(''), before.key]
  objects.put('web', { cert, key })
  watch()
  await until(1)
  for (const [fields, reason] of [
    [
      { cert, key: after.key },
      /^Cannot use key of the Secret edge\/web: its key does not match the first certificate in cert of/,
    ],
    [
      { cert: after.chain.join('').slice(0, -40), key: after.key },
      /cert of the Secret edge\/web: it ends within certificate 2\./,
    ],
    [{ cert }, /it has no cert and key, or tls\.crt and tls\.key\. Write them/],
  ] as const) {
    objects.put('web', fields)
    const fault = await until(events.length + 1)
    assert.ok(fault?.kind === 'files-unusable' && fault.isServed)
    assert.match(fault.reason, reason)
    assert.equal(served(), cert)
  }
  objects.fault = new CAError('denied', 'Cannot get the Secret. Grant it.')
  objects.put('web', { cert: after.chain.join(''), key: after.key })
  const refused = await until(events.length + 1)
  assert.deepEqual(refused, { kind: 'files-unusable', reason: 'Cannot get the Secret. Grant it.', isServed: true })
  objects.fault = undefined
  objects.put('web', { cert: after.chain.join(''), key: after.key })
  await until(events.length + 1)
  assert.equal(served(), after.chain.join(''))
})

test('a Secret that is deleted is withdrawn, and served again when it is back', async t => {
  const { objects, events, items, files, until, served, watch, issuer } = await setUp(t)
  const { chain, key } = await issuer.issue(ID)
  watch()
  const absent = await until(1)
  assert.ok(absent?.kind === 'files-unusable' && !absent.isServed)
  assert.match(absent.reason, /^Cannot use the Secret edge\/web: it is not there\. Create it/)
  assert.equal(files.problem(WEB), absent.reason)
  objects.put('web', { cert: chain.join(''), key })
  await until(2)
  objects.put('web', undefined)
  await until(4)
  assert.deepEqual(events[2], { kind: 'withdrawn', reason: 'deleted' })
  assert.deepEqual([served(), items.at(-1)], [undefined, undefined])
  objects.put('web', { cert: chain.join(''), key })
  await until(5)
  assert.equal(served(), chain.join(''))
})

test('a name of another namespace, and any without Secrets to read, are refused', async t => {
  const { files } = await setUp(t)
  assert.equal(files.refusal({ ...WEB, namespace: 'other' }), 'is elsewhere')
  assert.equal(files.refusal(WEB), undefined)
  using none = new FileSecrets({
    clock: new FakeClock(),
    vault: plainKeyVault,
    folders: [],
    onWatchError: error => assert.fail(String(error)),
    report: name => assert.fail(name),
  })
  assert.match(none.refusal(WEB) ?? '', /this agent reads no Secrets there: set kubernetesSecrets\.namespaces/)
})

test('a Secret that is asked for again and again is followed once, and no longer than half a minute after', async t => {
  const { clock, objects, files, until, served, issuer } = await setUp(t)
  const { chain, key } = await issuer.issue(ID)
  objects.put('web', { cert: chain.join(''), key })
  for (let time = 0; time < 50; time++) {
    using _again = files.subscribe(WEB, () => {})
    await clock.advance(20_000)
  }
  await until(1)
  assert.deepEqual([objects.follows, served()], [1, chain.join('')])
  await clock.advance(30_000)
  assert.deepEqual([files.entries(), objects.followers], [[], 0])
})

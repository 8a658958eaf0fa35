/** The pods of a node down to the sockets: real sockets in folders of pods, a real SecretManager, a CA that signs. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type CAClient, SecretManager, type SpiffeId } from '@livery/core'
import { FakeClock, TestCA, TestKeyGenerator } from '@livery/core/testing'
import { createSdsServer } from '@livery/sds-server'
import { makeDirectory } from '../../test/livery-process.ts'
import { podResource } from '../../test/pod-api-server.ts'
import { fetchSecrets } from '../../test/sds-client.ts'
import { podTable, type RulesInit } from '../../test/watched-pods.ts'
import { PodFolders } from '../kubernetes/pod-folders.ts'
import { PodIdentities } from '../kubernetes/pod-identities.ts'
import { IdentityUnion } from './identity-union.ts'
import { SourceFollower } from './source-follower.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

interface NodeSetup {
  readonly rules?: RulesInit
  /** Stands between the manager and the CA. */
  readonly wrap?: (ca: CAClient) => CAClient
}

/** A node without an API server: the test says which pods there are. */
async function startNode(t: TestContext, { rules = {}, wrap = ca => ca }: NodeSetup = {}) {
  const directory = await makeDirectory()
  const root = join(directory.path, 'pods')
  const clock = new FakeClock(Date.now())
  const ca = await TestCA.create(clock)
  const secrets = new SecretManager({
    ca: wrap(ca),
    clock,
    keyGenerator: new TestKeyGenerator(),
    trustDomain: 'cluster.local',
    removalGraceMs: 0,
  })
  const sds = await createSdsServer({ sockets: [], source: secrets, clock, drainMs: 0 })
  const { pods } = podTable(rules)
  const errors: string[] = []
  const kept: string[] = []
  const applied: number[] = []
  const settings = { root, name: 'socket', mode: 0o666 }
  const hasPod = (uid: string) => pods.get(uid) !== undefined
  const folders = new PodFolders({
    ...settings,
    hasPod,
    onKept: folder => kept.push(folder),
    onClosedToPod: folder => errors.push(folder),
  })
  pods.changes.subscribe(change => folders.onChange(change))
  const union = new IdentityUnion(secrets)
  const closed = new EventTarget()
  const follower = new SourceFollower({
    name: 'kubernetes',
    source: new PodIdentities(pods, settings),
    union: {
      replace(name, identities) {
        applied.push(identities.size)
        return union.replace(name, identities)
      },
    },
    sds,
    clock,
    onError: (_, path) => errors.push(path),
    onClosed(path) {
      folders.onClosed(path)
      closed.dispatchEvent(new Event('closed'))
    },
  })
  t.after(async () => {
    follower[Symbol.dispose]()
    await sds.close()
    await secrets[Symbol.asyncDispose]()
    await directory[Symbol.asyncDispose]()
  })
  const socketOf = (uid: string) => join(root, uid, 'socket')
  return {
    root,
    clock,
    ca,
    secrets,
    sds,
    pods,
    errors,
    kept,
    applied,
    folders,
    union,
    socketOf,
    closed: () => once(closed, 'closed'),
    /** Lets the changes so far be put in force, and waits until so many sockets listen. */
    async followed(sockets: number): Promise<void> {
      await clock.advance(200)
      while (sds.sockets().filter(({ state }) => state === 'listening').length !== sockets)
        await new Promise(setImmediate)
    },
  }
}

/** What `default` is on a socket. */
async function identityAt(socket: string): Promise<string> {
  const [secret] = await fetchSecrets(socket, ['default'])
  return new X509Certificate(secret?.certificateChain ?? '').subjectAltName?.replace('URI:', '') ?? ''
}

test('each pod has a socket in a folder of its own, where default is its identity; pods of one account share that', async t => {
  const node = await startNode(t)
  const pods = (['web', 'web', 'api'] as const).map((serviceAccount, index) =>
    podResource({ name: `p-${index}`, serviceAccount }),
  )
  node.pods.replace(pods.map(pod => node.pods.read(pod)))
  await node.followed(3)
  const [web = '', other = '', api = ''] = pods.map(({ metadata }) => node.socketOf(metadata.uid))
  assert.deepEqual([await identityAt(web), await identityAt(other), await identityAt(api)], [WEB, WEB, API])
  assert.deepEqual(
    node.secrets
      .entries()
      .map(({ identity }) => identity)
      .sort(),
    [API, WEB],
  )
  // The pod's user, which may be any, has to reach it; other users of the node have no way to it.
  const modeOf = (path: string) => (lstatSync(path).mode & 0o7777).toString(8)
  assert.deepEqual([modeOf(node.root), modeOf(dirname(web)), modeOf(web)], ['700', '755', '666'])

  if (pods[0]) node.pods.delete(pods[0])
  await node.followed(2)
  assert.deepEqual([existsSync(dirname(web)), await identityAt(other)], [false, WEB])
  if (pods[1]) node.pods.delete(pods[1])
  await node.followed(1)
  assert.deepEqual(
    node.secrets
      .entries()
      .filter(({ hold }) => hold === 'pinned')
      .map(({ identity }) => identity),
    [API],
  )
  assert.deepEqual([readdirSync(node.root), node.errors], [[pods[2]?.metadata.uid], []])
})

test('a folder that kubelet made first, closed as its root, is opened to the pod that has mounted it', async t => {
  const node = await startNode(t)
  const pod = podResource({ name: 'quick' })
  const folder = dirname(node.socketOf(pod.metadata.uid))
  mkdirSync(folder, { mode: 0o700 })
  const { ino } = lstatSync(folder)
  node.pods.replace([node.pods.read(pod)])
  await node.followed(1)
  assert.deepEqual([lstatSync(folder).ino, lstatSync(folder).mode & 0o7777], [ino, 0o755])
})

test('500 pods that arrive at once are one change, and so are those that leave', async t => {
  const node = await startNode(t)
  const pods = Array.from({ length: 500 }, (_, index) =>
    podResource({ name: `p-${index}`, serviceAccount: `sa-${index % 50}` }),
  )
  node.pods.replace([])
  await node.clock.advance(200)
  node.applied.length = 0
  for (const pod of pods) node.pods.put(pod)
  const start = performance.now()
  await node.followed(500)
  t.diagnostic(`500 sockets in ${Math.round(performance.now() - start)} ms`)
  assert.deepEqual(node.applied, [50])
  assert.equal(readdirSync(node.root).length, 500)
  for (const pod of pods) node.pods.delete(pod)
  await node.followed(0)
  while (readdirSync(node.root).length > 0) await node.closed()
  assert.deepEqual([node.applied, node.errors, node.kept], [[50, 0], [], []])
})

test('a pod that is deleted while its certificate is being issued leaves nothing, and the certificate comes to nobody', async t => {
  const asked = Promise.withResolvers<void>()
  const node = await startNode(t, {
    wrap: ca => ({
      issue(request) {
        asked.resolve()
        // Until the request is given up.
        return new Promise((_, reject) => request.signal.addEventListener('abort', () => reject(request.signal.reason)))
      },
      [Symbol.asyncDispose]: () => ca[Symbol.asyncDispose](),
    }),
  })
  const pod = podResource({ name: 'short' })
  node.pods.replace([node.pods.read(pod)])
  await node.followed(1)
  await asked.promise
  node.pods.delete(pod)
  await node.followed(0)
  while (readdirSync(node.root).length > 0) await node.closed()
  await node.clock.advance(1_000)
  assert.deepEqual(
    node.secrets.entries().filter(({ hold }) => hold === 'pinned'),
    [],
  )
})

test('a pod that is deleted before its socket is open has none', async t => {
  const node = await startNode(t)
  const pods = Array.from({ length: 40 }, (_, index) => podResource({ name: `p-${index}` }))
  node.pods.replace(pods.map(pod => node.pods.read(pod)))
  await node.clock.advance(0)
  for (const pod of pods) node.pods.delete(pod)
  await node.followed(0)
  while (node.sds.sockets().length > 0) await new Promise(setImmediate)
  while (readdirSync(node.root).length > 0) await new Promise(setImmediate)
  assert.deepEqual([node.errors, node.kept], [[], []])
})

test('other labels make the same socket that of another identity, in the folder that the pod has mounted', async t => {
  const node = await startNode(t, { rules: { identity: 'spiffe://{trustDomain}/ns/{namespace}/sa/{label:app}' } })
  const labelled = (labels: Record<string, string>) => podResource({ name: 'p', uid: 'u-1', labels })
  node.pods.replace([node.pods.read(labelled({ 'livery.dev/inject': 'true', app: 'web' }))])
  await node.followed(1)
  const { ino } = lstatSync(join(node.root, 'u-1'))
  assert.equal(await identityAt(node.socketOf('u-1')), WEB)

  node.pods.put(labelled({ 'livery.dev/inject': 'true', app: 'api' }))
  const reopened = node.closed()
  await node.followed(1)
  await reopened
  assert.equal(await identityAt(node.socketOf('u-1')), API)

  node.pods.put(labelled({ app: 'api' }))
  await node.followed(0)
  assert.ok(!existsSync(node.socketOf('u-1')))
  node.pods.put(labelled({ 'livery.dev/inject': 'true', app: 'web' }))
  await node.followed(1)
  assert.deepEqual([await identityAt(node.socketOf('u-1')), lstatSync(join(node.root, 'u-1')).ino], [WEB, ino])
  node.pods.delete(labelled({}))
  await node.followed(0)
  while (readdirSync(node.root).length > 0) await node.closed()
})

test('a socket that cannot be opened keeps none of the others out, is reported once, and is tried again', async t => {
  const node = await startNode(t)
  mkdirSync(join(node.root, 'u-1'))
  writeFileSync(node.socketOf('u-1'), 'not a socket')
  const pods = ['u-1', 'u-2'].map(uid => podResource({ name: uid, uid }))
  node.pods.replace(pods.map(pod => node.pods.read(pod)))
  await node.followed(1)
  assert.equal(await identityAt(node.socketOf('u-2')), WEB)
  while (node.errors.length === 0) await new Promise(setImmediate)
  await node.clock.advance(5_200)
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate)
  assert.deepEqual(node.errors, [node.socketOf('u-1')])
  rmSync(node.socketOf('u-1'))
  await node.clock.advance(5_200)
  await node.followed(2)
})

test('an identity that the configuration lists too stays when its last pod is gone', async t => {
  const node = await startNode(t)
  const pod = podResource({ name: 'p' })
  node.union.replace('configuration', new Map([[WEB satisfies SpiffeId, { sockets: [] }]]))
  node.pods.replace([node.pods.read(pod)])
  await node.followed(1)
  node.pods.delete(pod)
  await node.followed(0)
  assert.deepEqual(
    node.secrets.entries().map(({ identity, hold }) => [identity, hold]),
    [[WEB, 'pinned']],
  )
})

test('before the pods were listed nothing is held or let go of', async t => {
  const node = await startNode(t)
  node.pods.put(podResource({ name: 'p' }))
  await node.followed(0)
  assert.deepEqual([node.applied, node.secrets.entries(), node.sds.sockets()], [[], [], []])
})

test('of the folders that an earlier run left only its own, of pods that are gone, are removed', async t => {
  const node = await startNode(t)
  const known = podResource({ name: 'known', labels: {} })
  node.pods.replace([node.pods.read(known)])
  const make = (uid: string) => mkdirSync(join(node.root, uid), { mode: 0o755 })
  for (const uid of [known.metadata.uid, 'gone', 'filled', 'open', 'Not.A.Uid']) make(uid)
  const stale = createServer().listen(node.socketOf('gone'))
  await once(stale, 'listening')
  t.after(() => stale.close())
  writeFileSync(join(node.root, 'filled', 'keep'), '')
  chmodSync(join(node.root, 'open'), 0o777)
  symlinkSync('/etc', join(node.root, 'link'))
  node.folders.sweep()
  const left = ['Not.A.Uid', 'filled', 'link', 'open', known.metadata.uid]
  assert.deepEqual(readdirSync(node.root).sort(), left.sort())
  assert.deepEqual(node.kept.map(path => path.slice(node.root.length + 1)).sort(), ['filled', 'link', 'open'])
})

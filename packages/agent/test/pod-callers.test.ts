/** Pods that share one socket, as real processes in real control groups: each gets its own identity, and nobody else's. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CertificateAuthority, EmbeddedClient } from '@livery/ca-plugins/embedded'
import { Events, SecretManager } from '@livery/core'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { createKeyGenerator, readPeerCgroups, readPeerCredentials } from '@livery/native-keygen'
import { createSdsServer, type SdsEvent } from '@livery/sds-server'
import { TemporaryFolder } from '@livery/test-support'
import type { Pod, PodChange, PodTable } from '../src/kubernetes/pod.ts'
import { PodCallers } from '../src/kubernetes/pod-callers.ts'
import { findPod } from '../src/kubernetes/pod-cgroup.ts'
import { CALLERS, noCallers, runCallers } from './callers.ts'
import { CONTAINER, ControlGroups, enter, groupPath, noControlGroups, noRenames } from './control-groups.ts'
import { StartedPod } from './pod-process.ts'

const skip = noControlGroups || noCallers

/** The pods of a test, as the API server would list them. */
class MemoryPods implements PodTable {
  readonly changes = new Events<PodChange>()
  readonly #pods = new Map<string, Pod>()

  get(uid: string): Pod | undefined {
    return this.#pods.get(uid)
  }

  all(): Iterable<Pod> {
    return this.#pods.values()
  }

  put(pod: Pod): void {
    this.#pods.set(pod.uid, pod)
    this.changes.emit({ kind: 'added', pod })
  }

  remove(pod: Pod): void {
    this.#pods.delete(pod.uid)
    this.changes.emit({ kind: 'removed', pod })
  }
}

interface Node {
  readonly socket: string
  readonly groups: ControlGroups
  readonly pods: MemoryPods
  readonly events: readonly SdsEvent[]
  /** Makes a pod with its group; its identity is `sa/<name>`. */
  add(name: string, hierarchy?: 'unified' | 'pids'): { readonly pod: Pod; readonly group: string }
  /** Starts a process in a group; it ends with the test. */
  start(...groups: readonly string[]): Promise<StartedPod>
  /** Resolves when so many connections were looked at since the start. */
  connections(count: number): Promise<void>
  refusals(): readonly Extract<SdsEvent, { kind: 'connection-refused' }>[]
  /** The subjects that were let in. */
  subjects(): readonly (string | undefined)[]
}

function identityOf(name: string): SpiffeId {
  return `spiffe://cluster.local/ns/default/sa/${name}`
}

/** A node whose agent serves all pods on one socket. */
async function startNode(t: TestContext): Promise<Node> {
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const directory = stack.use(new TemporaryFolder())
  const groups = stack.use(new ControlGroups())
  const clock = stack.use(new SystemClock())
  const ca = stack.use(new EmbeddedClient(await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })))
  const keyGenerator = createKeyGenerator().generator
  const secrets = stack.use(new SecretManager({ ca, keyGenerator, clock, trustDomain: 'cluster.local' }))
  const pods = new MemoryPods()
  assert.ok(readPeerCgroups)
  const read = readPeerCgroups
  let identified = 0
  const countingRead = (descriptor: number) => {
    identified++
    return read(descriptor)
  }
  const callerDirectory = stack.use(new PodCallers(pods, countingRead, [groups.root]))
  const socket = join(directory.path, 'sds.sock')
  const seen: SdsEvent[] = []
  const events = new Events<SdsEvent>()
  events.subscribe(event => void seen.push(event))
  stack.use(
    await createSdsServer({
      sockets: [{ path: socket, mode: 0o666, identify: true }],
      source: secrets,
      clock,
      readPeerCredentials,
      callerDirectory,
      drainMs: 0,
      events,
    }),
  )
  return {
    socket,
    groups,
    pods,
    events: seen,
    add(name, hierarchy) {
      secrets.add(identityOf(name))
      const [uid, labels] = [randomUUID(), new Map<string, string>()]
      const identity = identityOf(name)
      const pod = {
        uid,
        namespace: 'default',
        name,
        serviceAccount: name,
        labels,
        annotations: labels,
        identity,
        dnsNames: [],
      }
      pods.put(pod)
      return { pod, group: groups.make(groupPath(pod.uid), hierarchy) }
    },
    start: async (...into) => stack.use(await StartedPod.start(...into)),
    async connections(count) {
      while (identified < count) await new Promise(setImmediate)
    },
    refusals: () => seen.filter(event => event.kind === 'connection-refused'),
    subjects: () => seen.flatMap(event => (event.kind === 'connection-opened' ? [event.connection.subject] : [])),
  }
}

test('two pods of one uid on one socket: default is the identity of the pod, and that of the other is refused', {
  skip,
}, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web'), node.add('api')]
  for (const [{ pod, group }, other] of [
    [web, 'api'],
    [api, 'web'],
  ] as const) {
    const process = await node.start(group)
    const own = identityOf(pod.name)
    const answer = await process.ask(node.socket, 'default', own, identityOf(other), 'ROOTCA')
    assert.deepEqual(answer, { identities: { ROOTCA: 'roots', default: own, [own]: own } })
  }
  assert.deepEqual(node.subjects(), [`pod ${web.pod.uid}`, `pod ${api.pod.uid}`])
})

test('the driver of systemd, and a group that a container made below its own', { skip }, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web'), node.add('api')]
  const uid = web.pod.uid.replaceAll('-', '_')
  const container = `kubepods.slice/kubepods-pod${uid}.slice/cri-containerd-${CONTAINER}.scope`
  const process = await node.start(node.groups.make(`${container}/${groupPath(api.pod.uid)}`))
  assert.deepEqual(await process.ask(node.socket, 'default'), { identities: { default: identityOf('web') } })
})

test('a pod that is gone loses its connection; one that is not known yet is served when it is', { skip }, async t => {
  const node = await startNode(t)
  const { pod, group } = node.add('web')
  const process = await node.start(group)
  assert.deepEqual(await process.ask(node.socket, 'default'), { identities: { default: identityOf('web') } })
  node.pods.remove(pod)
  const late = process.ask(node.socket, 'default')
  await node.connections(2)
  node.pods.put(pod)
  assert.deepEqual(await late, { identities: { default: identityOf('web') } })
  assert.deepEqual(node.refusals(), [])
})

test('ten thousand attempts by strangers get nothing, and a pod is served meanwhile', { skip }, async t => {
  const node = await startNode(t)
  const { pod, group } = node.add('web')
  const forged = groupPath(pod.uid)
  const strangers = [
    '', // in no pod
    node.groups.makeOutside(`user.slice/user-1000.slice/user@1000.service/${forged}`),
    node.groups.make(`pod${pod.uid}/${CONTAINER}`),
  ]
  const process = await node.start(group)
  let isOver = false
  const attempts = Promise.all([
    runCallers('attempts', node.socket, 3_200, ...strangers),
    runCallers('handed-on', node.socket, 400),
  ]).finally(() => {
    isOver = true
  })
  let answers = 0
  while (!isOver) {
    assert.deepEqual(await process.ask(node.socket, 'default'), { identities: { default: identityOf('web') } })
    answers++
  }
  assert.deepEqual(await attempts, [
    { attempts: 9_600, served: 0 },
    { attempts: 400, served: 0 },
  ])
  assert.ok(answers > 0)
  assert.deepEqual([...new Set(node.subjects())], [`pod ${pod.uid}`])
  const refusals = node.refusals()
  assert.equal(refusals.length, 10_000)
  for (const { reason, detail = '' } of refusals) {
    assert.equal(reason, 'unidentified')
    assert.match(detail, /^process \d+: (it is in no pod: |the process that connected has ended)/)
  }
})

test('a pid that is that of a pod by now is not taken for the pod', {
  skip: skip || (isRoot() ? false : 'needs root, to choose pids'),
}, async t => {
  const node = await startNode(t)
  const { pod, group } = node.add('web')
  let reused = 0
  for (let round = 0; round < 10; round++) {
    // The server does nothing until this returns.
    const { stdout } = spawnSync('python3', [CALLERS, 'reused', node.socket, group])
    const answer: { readonly pid: number; readonly reused: boolean } = JSON.parse(stdout.toString())
    if (answer.reused) {
      reused++
      // The pid alone would lead to the pod.
      assert.equal(findUid(answer.pid, node.groups.root), pod.uid)
    }
    while (node.refusals().length <= round) await new Promise(setImmediate)
    const last = node.refusals().at(-1)
    assert.equal(last?.connection.caller?.pid, answer.pid)
    assert.match(last?.detail ?? '', /the process that connected has ended/)
  }
  assert.ok(reused > 0, 'no pid could be reused')
  assert.deepEqual(node.subjects(), [])
})

test('a connection that one pod passes to another is that of the pod which opened it', { skip }, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web'), node.add('api')]
  assert.deepEqual(await runCallers('passed', node.socket, web.group, api.group), { served: true })
  assert.deepEqual(node.subjects(), [`pod ${web.pod.uid}`])
})

test('a process that is moved keeps the pod of its connection, and gets the other with its next', { skip }, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web'), node.add('api')]
  const process = await node.start(web.group)
  const before = await process.ask(node.socket, 'default')
  enter(api.group, process.pid)
  const after = await process.ask(node.socket, 'default')
  assert.deepEqual(
    [before, after],
    ['web', 'api'].map(name => ({ identities: { default: identityOf(name) } })),
  )
})

test('a group below its container that is renamed to that of another pod changes nothing', {
  skip: noRenames,
}, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web', 'pids'), node.add('api', 'pids')]
  const parts = ['kubepods', 'burstable', `pod${api.pod.uid}`]
  const below = node.groups.make(`${web.group.slice(web.group.indexOf('kubepods'))}/${parts[0]}/${parts[1]}/x`, 'pids')
  const process = await node.start(below)
  const renamed = join(dirname(below), parts[2] ?? '')
  renameSync(below, renamed)
  node.groups.forget(below, renamed)
  assert.match(readFileSync(`/proc/${process.pid}/cgroup`, 'utf8'), new RegExp(`${CONTAINER}/.*pod${api.pod.uid}`))
  assert.deepEqual(await process.ask(node.socket, 'default'), { identities: { default: identityOf('web') } })
})

test('groups of two pods in two hierarchies are refused', { skip: noRenames }, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web'), node.add('api', 'pids')]
  const process = await node.start(web.group, api.group)
  assert.ok('failure' in (await process.ask(node.socket, 'default')))
  assert.match(node.refusals()[0]?.detail ?? '', /its control groups belong to two pods/)
})

test('a thread in the group of another pod connects as its process', { skip: skip || noRenames }, async t => {
  const node = await startNode(t)
  const [web, api] = [node.add('web', 'pids'), node.add('api', 'pids')]
  assert.deepEqual(await runCallers('thread', node.socket, web.group, api.group), { served: true })
  assert.deepEqual(node.subjects(), [`pod ${web.pod.uid}`])
})

function isRoot(): boolean {
  return process.getuid?.() === 0
}

function findUid(pid: number, root: string): string | undefined {
  const found = findPod(readFileSync(`/proc/${pid}/cgroup`, 'utf8'), [root])
  return 'uid' in found ? found.uid : undefined
}

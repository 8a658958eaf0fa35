/** Real Envoys call each other without end while a real API server has 200 pods created, moved and deleted, and strangers try to get a key. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { noCallers, runAttempts } from './callers.ts'
import { CONTAINER, enter, groupPath, noRenames } from './control-groups.ts'
import { noEnvoy, until } from './envoy-bench.ts'
import { MeshTraffic } from './envoy-mesh.ts'
import { EnvoyPods } from './envoy-pods.ts'
import { noKube } from './kube-admin.ts'
import { noMounts } from './launchers.ts'
import { type NodePod, PodNode } from './pod-node.ts'
import { PodPopulation } from './pod-population.ts'
import { StartedPod } from './pod-process.ts'

const skip =
  noKube ||
  noEnvoy ||
  noRenames ||
  noMounts ||
  noCallers ||
  (process.env['LIVERY_SLOW'] ? false : 'it takes minutes: LIVERY_SLOW=1 runs it')

const PODS = 200
/** Created, deleted and moved in each wave: the log that says which are gone has at most 50 lines of them in 10 s. */
const CHURN = 4
/** So that each identity is that of two pods. */
const ACCOUNTS = Array.from({ length: PODS / 2 }, (_, index) => `sa-${index}`)
const ENVOYS = 8
/** Of the Envoys, the first: the others are moved. */
const STAYING = 4
const STRANGERS = 10_000
/** That each staying Envoy shows: they live for a minute, and half a minute passes from one to the next. */
const CERTIFICATES = 5
const PATIENCE_MS = 60_000
/** The waves in which another agent takes over. */
const TAKEOVERS = [5, 10]

/** Processes that are in no pod, or not in the one that they seem to be in. */
class Strangers {
  readonly #node: PodNode
  /** At the socket that pods share. */
  attempts = 0
  served = 0
  reused = 0

  constructor(node: PodNode) {
    this.#node = node
  }

  /** Some 500 attempts to pass for the pod `victim`. */
  async attempt(victim: NodePod): Promise<void> {
    const { socket, groups, agentPid } = this.#node
    const path = groupPath(victim.uid)
    const forged = [
      '', // in no pod
      groups.makeOutside(`user.slice/user-1000.slice/user@1000.service/${path}`),
      groups.make(`pod${victim.uid}/${CONTAINER}`),
    ]
    const renamed = groups.makeOutside('kubepods/burstable/stranger', 'pids')
    const outcomes = await runAttempts(
      ['attempts', socket, 110, ...forged],
      ['renamed', socket, 110, renamed, `pod${victim.uid}`],
      ['handed-on', socket, 60],
      ['reused-while-stopped', socket, this.#node.groupOf(victim), agentPid, 5],
    )
    for (const { attempts, served, reused = 0 } of outcomes) {
      this.attempts += attempts
      this.served += served
      this.reused += reused
    }
  }
}

/** A process of `pod`, in a group that it named like that of `victim`, gets its own identity alone. */
async function visit(node: PodNode, visitor: StartedPod, pod: NodePod, victim: NodePod): Promise<void> {
  enter(node.groups.make(`${groupPath(pod.uid)}/${groupPath(victim.uid)}`), visitor.pid)
  const answer = await visitor.ask(node.socket, 'default', victim.identity)
  assert.deepEqual(answer, { identities: { default: pod.identity } })
}

/** A process that outlives its pod gets nothing. */
async function haunt(node: PodNode, ghost: StartedPod, pod: NodePod): Promise<void> {
  enter(node.groupOf(pod), ghost.pid)
  assert.ok('failure' in (await ghost.ask(node.socket, 'default')), `${pod.name} is gone, and was served`)
}

/** The lines that report a fault. */
function faultsIn(log: string): readonly string[] {
  const isFault = (line: string) => /"level":"(?:error|fatal)"/.test(line)
  return log.split('\n').filter(line => isFault(line) || line.includes('PRIVATE KEY'))
}

test('no request fails and no identity is given to another pod while 200 pods come, move and go', {
  skip,
  timeout: 900_000,
}, async t => {
  const begun = performance.now()
  await using node = await PodNode.start()
  for (const account of ACCOUNTS) await node.nodes.addAccount(account)
  const population = new PodPopulation(node, ACCOUNTS)
  await population.create(PODS)
  await using envoys = new EnvoyPods(node, ACCOUNTS.slice(0, ENVOYS))
  await envoys.start()
  await using visitor = await StartedPod.start()
  await using ghost = await StartedPod.start()
  const strangers = new Strangers(node)
  await using traffic = new MeshTraffic(envoys.members)
  const staying = envoys.members.slice(0, STAYING)
  const certificates = () => staying.map(member => traffic.serials.get(member)?.size ?? 0)

  let visits = 0
  const changing = async (victim: NodePod): Promise<NodePod> => {
    const { gone, here } = await population.wave(CHURN)
    for (const pod of here.filter(({ account }) => account !== victim.account)) {
      await visit(node, visitor, pod, victim)
      visits++
    }
    const [first] = gone
    assert.ok(first)
    return first
  }
  const started = performance.now()
  const gone: NodePod[] = []
  let waves = 0
  while (strangers.attempts < STRANGERS || Math.min(...certificates()) < CERTIFICATES) {
    const victim = envoys.pods[waves % STAYING]
    const late = gone.at(-1 - (waves % 2))
    assert.ok(victim)
    const tasks = [
      changing(victim),
      envoys.move(STAYING + (waves % (ENVOYS - STAYING)), traffic),
      TAKEOVERS.includes(waves) ? node.takeOver() : strangers.attempt(victim),
      late && haunt(node, ghost, late),
    ] as const
    // Where one fails the others are not left behind.
    await Promise.allSettled(tasks)
    const [deleted, moved] = await Promise.all(tasks)
    gone.push(deleted, moved)
    await envoys.check()
    assert.deepEqual([traffic.failures, strangers.served], [[], 0])
    waves++
  }
  const seconds = (performance.now() - started) / 1_000
  await population.clear()
  await envoys.check()
  await traffic.stop()

  assert.deepEqual([traffic.failures, strangers.served], [[], 0])
  assert.ok(strangers.reused > 0, 'no pid could be reused')
  assert.ok((await node.refused()) >= strangers.attempts)
  await until(
    'the agent lets go of the rest',
    async () => (await node.available()) === ENVOYS || undefined,
    PATIENCE_MS,
  )
  assert.deepEqual(faultsIn(node.log), [])
  const { created, moved, deleted } = population.counts
  const { attempts, reused } = strangers
  t.diagnostic(
    `${traffic.requests} requests between ${ENVOYS} Envoys in ${seconds.toFixed(0)} s, 0 failed; ${1 + TAKEOVERS.length} agents`,
  )
  t.diagnostic(`certificates of the Envoys that stayed: ${certificates().join(', ')}; ${waves} Envoys were moved`)
  t.diagnostic(`pods: ${created} created, ${moved} moved away and back, ${deleted} deleted`)
  t.diagnostic(`${visits} pods asked for the identity of another as well, and got their own alone`)
  t.diagnostic(`${waves - 1} processes outlived their pods, and got nothing`)
  t.diagnostic(`strangers: ${attempts} attempts, ${reused} with a reused pid; 0 served`)
  t.diagnostic(`${((performance.now() - begun) / 1_000).toFixed(0)} s in all`)
})

/** One soak: starts everything, samples every ten seconds, and gathers the reports of the client. */
import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { Workdir } from '../peers/workdir.ts'
import type { AttackOrder, AttackReport } from './attacker.ts'
import type { ClientOrder, ClientReport } from './client.ts'
import { describeFlood, FLOOD_PLANS, floodAgent, highestAtPeace } from './floods.ts'
import type { SoakOptions } from './options.ts'
import {
  type AgentProcess,
  ATTACKER,
  type CAProcess,
  heapBytes,
  identityNames,
  startAgent,
  startCA,
  usageOf,
} from './processes.ts'
import type { FloodSummary, Observed, Sample } from './verdict.ts'
import type { VictimOrder, VictimReport } from './victim.ts'

const SAMPLE_EVERY_MS = 10_000
/** A busy machine needs a while for ten thousand certificates. */
const ALL_SERVED_WITHIN_MS = 300_000
const MOST_FAILURES_KEPT = 20
const EACH_ATTACK_MS = 15_000
const PEACE = 'no flood'

/** `say` gets a line of progress now and then. */
export async function soak(options: SoakOptions, say: (line: string) => void): Promise<Observed> {
  await using workdir = new Workdir()
  const ca = await startCA(workdir, options)
  const agent = await startAgent(workdir, ca, options)
  const startedAt = performance.now()
  const names = identityNames(options.identities)
  const client = fork(new URL('client.ts', import.meta.url), { execArgv: process.execArgv })
  const victim = fork(new URL('victim.ts', import.meta.url), { execArgv: process.execArgv })
  using gathered = new Gathered(client, victim, options)
  client.send({ socket: agent.socket, names, connections: options.connections } satisfies ClientOrder)
  victim.send({ socket: agent.socket, name: names[0] ?? '' } satisfies VictimOrder)
  say(`agent ${agent.pid}, CA ${ca.pid}, client ${client.pid}`)

  const allServed = await gathered.waitForAll()
  if (allServed) {
    gathered.allServedAfterS = (performance.now() - startedAt) / 1_000
    say(`all ${options.identities} have a certificate after ${gathered.allServedAfterS.toFixed(1)} s`)
    if (options.attack) await gathered.flood(agent, say)
    using _attacker = options.attack ? new Attacker(agent, gathered, say) : undefined
    const away = takeCAAway(ca, options, say)
    await sample(agent, ca, gathered, options, say)
    await away
  }
  return gathered.observed()
}

/** Another uid, which runs one attack after the other. */
class Attacker implements Disposable {
  readonly #process: ChildProcess

  constructor({ socket, admin }: AgentProcess, gathered: Gathered, say: (line: string) => void) {
    this.#process = fork(new URL('attacker.ts', import.meta.url), { execArgv: process.execArgv })
    this.#process.on('message', ({ attack }: AttackReport) => {
      gathered.attack = attack
      say(`attack: ${attack}`)
    })
    this.#process.once('exit', code => gathered.fail(`the attacker ended with exit code ${code}`))
    const [host = '', port] = admin.split(':')
    const target = { socket, admin: { host, port: Number(port) }, ownName: ATTACKER.name }
    this.#process.send({ target, uid: ATTACKER.uid, eachMs: EACH_ATTACK_MS } satisfies AttackOrder)
  }

  [Symbol.dispose](): void {
    this.#process.removeAllListeners()
    this.#process.kill()
  }
}

/** The reports of the client and of the victim so far. */
class Gathered implements Disposable {
  allServedAfterS: number | undefined
  readonly samples: Sample[] = []
  readonly renewals: number[] = []
  /** The current attack. */
  attack: string | undefined
  /** Milliseconds, by attack. */
  readonly #answerTimes = new Map<string, number[]>()
  readonly #floods: FloodSummary[] = []
  readonly #children: readonly ChildProcess[]
  readonly #options: SoakOptions
  readonly #failures: string[] = []
  #ended: string | undefined
  #last: ClientReport | undefined
  #leastLeftMs: number | undefined
  #wake: () => void = () => {}

  constructor(client: ChildProcess, victim: ChildProcess, options: SoakOptions) {
    this.#children = [client, victim]
    this.#options = options
    client.on('message', (report: ClientReport) => this.#take(report))
    client.once('exit', code => this.fail(`the client ended with exit code ${code}`))
    victim.on('message', ({ answerTimes }: VictimReport) => {
      if (this.attack !== undefined) this.#keepAnswerTimes(this.attack, answerTimes)
    })
    victim.once('exit', code => this.fail(`the victim ended with exit code ${code}`))
  }

  get client(): { readonly seen: number; readonly failureCount: number; readonly cpuSeconds: number } {
    return this.#last ?? { seen: 0, failureCount: 0, cpuSeconds: 0 }
  }

  get leastLeftMs(): number | undefined {
    return this.#leastLeftMs
  }

  /** Waits until all have a certificate, and returns whether they do. */
  async waitForAll(): Promise<boolean> {
    const deadline = performance.now() + ALL_SERVED_WITHIN_MS
    while ((this.#last?.served ?? 0) < this.#options.identities) {
      if (this.#ended !== undefined || performance.now() > deadline) return false
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
    return true
  }

  async flood(agent: AgentProcess, say: (line: string) => void): Promise<void> {
    this.attack = PEACE
    const atPeaceMB = await highestAtPeace(agent)
    const atPeace = this.#answersUnder(PEACE)
    say(`no flood: longest answer ${atPeace?.mostMs.toFixed(0)} ms, at most ${atPeaceMB.toFixed(0)} MB`)
    for (const plan of FLOOD_PLANS) {
      const name = describeFlood(plan)
      this.attack = name
      const grownMB = await floodAgent(agent, plan, atPeaceMB)
      const answered = this.#answersUnder(name)
      if (answered) this.#floods.push({ ...answered, grownMB })
      else this.fail(`under the flood ${name} there was no answer`)
      say(`flood: ${name}: longest answer ${answered?.mostMs.toFixed(0)} ms, ${grownMB.toFixed(0)} MB`)
    }
    this.attack = undefined
    this.#answerTimes.clear()
  }

  observed(): Observed {
    const { seen, failureCount } = this.client
    const ended = this.#ended === undefined ? [] : [this.#ended]
    return {
      ...this.#options,
      seen,
      failureCount: failureCount + ended.length,
      failures: [...this.#failures, ...ended],
      allServedAfterS: this.allServedAfterS,
      renewals: this.renewals,
      leastLeftMs: this.#leastLeftMs,
      answers: summarize(this.#answerTimes),
      floods: this.#floods,
      samples: this.samples,
    }
  }

  /** Ends the soak with a failure that is not in a secret. */
  fail(reason: string): void {
    this.#ended = reason
    this.#wake()
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) {
      child.removeAllListeners()
      child.kill()
    }
  }

  #answersUnder(name: string): Observed['answers'][number] | undefined {
    return summarize(this.#answerTimes).find(({ attack }) => attack === name)
  }

  #keepAnswerTimes(attack: string, times: readonly number[]): void {
    const before = this.#answerTimes.get(attack)
    if (before) before.push(...times)
    else this.#answerTimes.set(attack, [...times])
  }

  #take(report: ClientReport): void {
    this.#last = report
    if (this.allServedAfterS !== undefined) this.renewals.push(report.renewals)
    if (report.leastLeftMs !== undefined)
      this.#leastLeftMs = Math.min(report.leastLeftMs, this.#leastLeftMs ?? report.leastLeftMs)
    this.#failures.push(...report.failures.slice(0, MOST_FAILURES_KEPT - this.#failures.length))
    this.#wake()
  }
}

function summarize(times: ReadonlyMap<string, readonly number[]>): Observed['answers'] {
  const at = (sorted: readonly number[], share: number) => sorted[Math.ceil(share * sorted.length) - 1] ?? Number.NaN
  return [...times].map(([attack, all]) => {
    const sorted = all.toSorted((a, b) => a - b)
    return { attack, count: sorted.length, p50Ms: at(sorted, 0.5), p99Ms: at(sorted, 0.99), mostMs: at(sorted, 1) }
  })
}

async function sample(
  agent: AgentProcess,
  ca: CAProcess,
  gathered: Gathered,
  { forMs }: SoakOptions,
  say: (line: string) => void,
): Promise<void> {
  const startedAt = performance.now()
  let before = await readCpu(agent, ca, gathered)
  for (let due = SAMPLE_EVERY_MS; due <= forMs; due += SAMPLE_EVERY_MS) {
    await sleep(startedAt + due - performance.now())
    const [usage, heap, now] = [await usageOf(agent), await heapBytes(agent), await readCpu(agent, ca, gathered)]
    const share = (name: 'agent' | 'ca' | 'client') => (now[name] - before[name]) / ((now.at - before.at) / 1_000)
    const lately = gathered.renewals.slice(-SAMPLE_EVERY_MS / 1_000)
    const one: Sample = {
      second: Math.round((now.at - startedAt) / 1_000),
      residentMB: usage.residentBytes / 1e6,
      heapMB: heap / 1e6,
      renewalsPerSecond: lately.reduce((a, b) => a + b, 0) / Math.max(1, lately.length),
      cpu: { agent: share('agent'), ca: share('ca'), client: share('client') },
    }
    gathered.samples.push(one)
    say(describe(one, gathered))
    before = now
  }
}

async function readCpu(agent: AgentProcess, ca: CAProcess, { client }: Gathered) {
  const [ofAgent, ofCA] = [await usageOf(agent), await usageOf(ca)]
  return { at: performance.now(), agent: ofAgent.cpuSeconds, ca: ofCA.cpuSeconds, client: client.cpuSeconds }
}

function describe({ second, residentMB, heapMB, renewalsPerSecond, cpu }: Sample, gathered: Gathered): string {
  const percent = (share: number) => `${(100 * share).toFixed(0)} %`
  const { seen, failureCount } = gathered.client
  const peak = gathered.renewals.reduce((a, b) => Math.max(a, b), 0)
  const left = gathered.leastLeftMs === undefined ? '–' : `${(gathered.leastLeftMs / 1_000).toFixed(1)} s`
  return [
    `${second} s: ${seen} secrets, ${failureCount} failures`,
    `${renewalsPerSecond.toFixed(0)} renewals/s (highest ${peak})`,
    `least left ${left}`,
    `agent ${residentMB.toFixed(0)} MB, heap ${heapMB.toFixed(0)} MB`,
    `CPU: agent ${percent(cpu.agent)}, CA ${percent(cpu.ca)}, client ${percent(cpu.client)}`,
  ].join('; ')
}

/** A stopped process answers nothing, and its connections stay open: the worst kind of outage. */
async function takeCAAway(
  { pid }: CAProcess,
  { caAwayMs, ttlMs }: SoakOptions,
  say: (line: string) => void,
): Promise<void> {
  if (caAwayMs === 0) return
  await sleep(2 * ttlMs)
  process.kill(pid, 'SIGSTOP')
  say(`the CA is stopped for ${caAwayMs / 1_000} s`)
  await sleep(caAwayMs)
  process.kill(pid, 'SIGCONT')
  say('the CA goes on')
}

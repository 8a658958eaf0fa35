/** Cold starts of Livery beside SPIRE's agent, ztunnel's certificate manager, and another working copy of Livery. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bench, Row } from './bench.ts'
import {
  type Asking,
  CPU,
  CPU_AFTER_START,
  coldStart,
  LAST_SECRET,
  onConnections,
  onConnectionsOfTheirOwn,
  onOneStream,
  P50,
  P99,
  PEAK,
  spireColdStart,
  ztunnelColdStart,
} from './cold-start.ts'
import type { Comparison, Target } from './comparison.ts'
import { whatIsAbsent } from './programs.ts'
import { inRounds, type Measured, type Side } from './rounds.ts'
import { startCA, startLivery } from './servers.ts'
import { startSpire } from './spire.ts'
import { Workdir } from './workdir.ts'
import { THIS_COPY, type WorkingCopy } from './working-copy.ts'

const SPIRE = ['spire-server', 'spire-agent'] as const
const ZTUNNEL = ['ztunnel-manager'] as const
const needs = ['neutralca', 'sdsload'] as const

export const coldStartRows: readonly Row[] = [
  { name: 'cold-start', needs, measure: measureWall },
  { name: 'cold-spire', needs, against: SPIRE, measure: measureBesideSpire },
  { name: 'cold-ztunnel', needs, against: ZTUNNEL, measure: measureBesideZtunnel },
  { name: 'cold-memory', needs, measure: measureMemory },
]

/** The figures of a sample, in the order of the table. */
const FIGURES = [
  { measure: LAST_SECRET, what: 'start of the agent to the last secret', unit: 's' },
  { measure: CPU, what: "agent's CPU per identity, start included", unit: 'ms' },
  { measure: CPU_AFTER_START, what: "agent's CPU per identity after its start", unit: 'ms' },
  { measure: PEAK, what: 'peak resident memory', unit: 'MB' },
  { measure: P50, what: 'asked to sent, p50', unit: 'ms' },
  { measure: P99, what: 'asked to sent, p99', unit: 'ms' },
] as const

const ALL = FIGURES.map(({ measure }) => measure)
/** ztunnel's manager has no socket. */
const OF_ZTUNNEL = ALL.filter(measure => measure !== CPU_AFTER_START)

interface Peer {
  /** The name in the table. */
  readonly name: string
  readonly side: Side
  /** The figures that are shown, and the ratios to reach. */
  readonly figures: readonly string[]
  readonly atMost?: Readonly<Record<string, number>>
}

interface ColdStart {
  readonly row: string
  /** The number of identities, and how they are requested. */
  readonly how: string
  readonly ours: Side
  /** The figures that are shown. */
  readonly figures: readonly string[]
  readonly peers: readonly Peer[]
  /** The limit of our figures, each in its unit. */
  readonly atMost?: Readonly<Record<string, number>>
}

async function measureWall(bench: Bench): Promise<Comparison[]> {
  const starts = [1_000, 5_000, 10_000].map(identities => {
    const start = liveryStart(bench, 'cold-start', identities, 'a client and connection each', onConnectionsOfTheirOwn)
    return { ...start, figures: [LAST_SECRET] }
  })
  return compare(bench, starts)
}

async function measureBesideSpire(bench: Bench): Promise<Comparison[]> {
  const identities = 1_000
  const start = liveryStart(bench, 'cold-spire', identities, 'on one stream', onOneStream)
  if (whatIsAbsent(bench.programs, SPIRE) !== undefined) return compare(bench, [start])
  await using workdir = new Workdir()
  const agent = await startSpire(bench, workdir, identities)
  const spire: Peer = {
    name: "SPIRE's agent",
    side: { name: `SPIRE, ${start.how}`, measure: () => spireColdStart(bench, agent) },
    figures: ALL,
    atMost: { [LAST_SECRET]: 0.5, [CPU]: 1.2 },
  }
  return await compare(bench, [{ ...start, peers: [spire, ...start.peers] }])
}

async function measureBesideZtunnel(bench: Bench): Promise<Comparison[]> {
  const starts = [1_000, 5_000].map(identities => {
    const start = liveryStart(bench, 'cold-ztunnel', identities, 'over 100 connections', onConnections(100))
    return { ...start, peers: [...ztunnelPeers(bench, identities), ...start.peers] }
  })
  return compare(bench, starts)
}

async function measureMemory(bench: Bench): Promise<Comparison[]> {
  const start = liveryStart(bench, 'cold-memory', 10_000, 'over 100 connections', onConnections(100))
  return compare(bench, [{ ...start, atMost: { [PEAK]: 240 } }])
}

function liveryStart(bench: Bench, row: string, identities: number, way: string, asking: Asking): ColdStart {
  const how = `${identities.toLocaleString('en-US')} identities, ${way}`
  const ours = { name: `Livery, ${how}`, measure: () => coldStart(bench, identities, asking) }
  const peers = bench.against ? [otherCopy(bench, bench.against, how, identities, asking)] : []
  return { row, how, ours, figures: ALL, peers }
}

function otherCopy(bench: Bench, copy: WorkingCopy, how: string, identities: number, asking: Asking): Peer {
  return {
    name: copy.name,
    side: { name: `${copy.name}, ${how}`, measure: () => coldStart(bench, identities, asking, copy.folder) },
    figures: [LAST_SECRET, CPU, CPU_AFTER_START, PEAK],
  }
}

/** The release's concurrency and delays; the second peer shows the effect of one socket option. */
function ztunnelPeers(bench: Bench, identities: number): readonly Peer[] {
  if (whatIsAbsent(bench.programs, ZTUNNEL) !== undefined) return []
  const peer = (name: string, options: readonly string[], figures: readonly string[]): Peer => ({
    name,
    side: { name: `${name}, ${identities}`, measure: () => ztunnelColdStart(bench, identities, options) },
    figures,
  })
  const atMost = identities === 5_000 ? { [LAST_SECRET]: 0.4 } : {}
  return [
    { ...peer("ztunnel's manager", [], OF_ZTUNNEL), atMost },
    peer("ztunnel's manager with TCP_NODELAY", ['nodelay'], [LAST_SECRET]),
  ]
}

async function compare(bench: Bench, starts: readonly ColdStart[]): Promise<Comparison[]> {
  await fillCompileCaches(bench)
  const sides = starts.flatMap(({ ours, peers }) => [ours, ...peers.map(({ side }) => side)])
  const measured = await inRounds(bench.rounds, sides, bench.say)
  return starts.flatMap(start => comparisonsOf(start, measured))
}

/** An agent has stored V8's compile cache by then. */
const KEPT_AFTER_MS = 5_000

/** The first start of a working copy compiles its sources; later ones find them compiled. */
async function fillCompileCaches(bench: Bench): Promise<void> {
  for (const copy of [THIS_COPY, ...(bench.against ? [bench.against.folder] : [])]) {
    await using workdir = new Workdir()
    await startLivery(workdir, await startCA(bench, workdir), 2, copy)
    await sleep(KEPT_AFTER_MS)
  }
}

function comparisonsOf({ row, how, ours, figures, peers, atMost }: ColdStart, measured: Measured): Comparison[] {
  const shown = FIGURES.filter(({ measure }) => figures.includes(measure))
  return shown.flatMap(({ measure, what, unit }) => {
    const alone = { row, work: `cold start, ${how}: ${what}`, unit, ours: measured(ours.name, measure) }
    const target = targetOf('ours', atMost?.[measure])
    const beside = peers
      .filter(({ figures }) => figures.includes(measure))
      .map(peer => ({
        ...alone,
        peer: { name: peer.name, samples: measured(peer.side.name, measure) },
        ...targetOf('ratio', peer.atMost?.[measure]),
      }))
    return beside.length === 0 || target.target ? [{ ...alone, ...target }, ...beside] : beside
  })
}

function targetOf(of: Target['of'], value: number | undefined): { readonly target?: Target } {
  return value === undefined ? {} : { target: { of, is: 'at most', value } }
}

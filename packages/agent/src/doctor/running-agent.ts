/** The running agent as it reports itself: readiness, roots, metrics; and the findings that follow from these. */
import { type CAErrorCode, type RootStatus, scrub } from '@livery/core'
import type { TrustStatus } from '../admin/routes.ts'
import { trustForm } from '../commands/admin-answers.ts'
import { askAdmin, readAdmin } from '../commands/admin-client.ts'
import type { ConfigSources } from '../config/layers.ts'
import { type Finding, ok, warning, wrong } from './finding.ts'

export interface RunningAgent {
  /** The lines of `/healthz/ready?mode=strict`. */
  readonly readiness: readonly string[]
  readonly isReady: boolean
  readonly trust: TrustStatus
  /** The value of a metric that has one sample. */
  metric(name: string): number | undefined
}

/** The agent, or the finding that there is none. */
export async function findAgent(sources: ConfigSources): Promise<RunningAgent | Finding> {
  try {
    const ready = await askAdmin('/healthz/ready?mode=strict', sources)
    const trust = await readAdmin<TrustStatus>('/trust', trustForm, sources)
    const metrics = await askAdmin('/metrics', sources)
    const lines = ready.body.split('\n').filter(line => line !== '')
    return { readiness: lines, isReady: ready.status === 200, trust, metric: name => metricIn(metrics.body, name) }
  } catch (error) {
    const remedy =
      'Start it, if it is to run now; one that runs and cannot listen there has logged endpoint-waiting. What follows is what it would find'
    return wrong('agent', 'livery run', scrub(error), remedy)
  }
}

function metricIn(text: string, name: string): number | undefined {
  const line = text.split('\n').find(each => each.startsWith(`${name} `) || each.startsWith(`${name}{`))
  return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1))
}

/** Of one that waits for much, or fails for many. */
const MAX_LINES = 20

/** `caCode`: of the CA's answer to this command, where it refused. */
export function agentFindings({ isReady, readiness }: RunningAgent, caCode?: CAErrorCode): Finding[] {
  const reasons = readiness.filter(line => line.startsWith('  '))
  const lines = isReady || reasons.length > 0 ? reasons : readiness
  if (isReady && lines.length === 0)
    return [ok('agent', 'livery run', 'every identity has a valid certificate, every socket is bound')]
  // A renewal that has failed for less than a minute does not count yet.
  const report = isReady ? warning : wrong
  const shown = lines.slice(0, MAX_LINES).map(line => {
    const text = scrub(line)
    const [, identity] = /^(spiffe:\/\/\S+): /.exec(text) ?? []
    const remedy =
      identity === undefined
        ? 'Correct it; the agent tries again'
        : `${followsFrom(caCode, text)}livery explain ${identity} shows each attempt`
    return report(
      'agent',
      identity ?? 'livery run',
      identity === undefined ? text : text.slice(identity.length + 2),
      remedy,
    )
  })
  const more = lines.length - shown.length
  if (more <= 0) return shown
  return [...shown, report('agent', 'livery run', `and ${more} more`, 'livery certs --failing lists them')]
}

/** Where the agent's failure has the code with which the CA refused this command, too. */
function followsFrom(caCode: CAErrorCode | undefined, text: string): string {
  return caCode !== undefined && text.includes(`(${caCode})`) ? `${CA_IS_CAUSE}; ` : ''
}

const CA_IS_CAUSE = 'This follows from the finding "ca": correct that one'

const DAY_MS = 86_400_000
/** A root is replaced over weeks: every client has to learn the next one. */
const ROOT_DAYS = 30

/** `caCode`: as of {@link agentFindings}. */
export function trustFindings({ trust: { now, trustDomains } }: RunningAgent, caCode?: CAErrorCode): Finding[] {
  if (trustDomains.every(({ roots }) => roots.length === 0)) {
    const remedy = caCode === undefined ? 'livery explain ROOTCA shows why' : CA_IS_CAUSE
    return [wrong('roots', 'ROOTCA', 'no root is known yet', remedy)]
  }
  return trustDomains.flatMap(({ trustDomain, roots }) => {
    const last = Math.max(...roots.map(({ notAfter }) => notAfter))
    const findings = roots.flatMap(root => rootFindings(trustDomain, root))
    if (last - now < ROOT_DAYS * DAY_MS)
      findings.push(
        warning(
          'roots',
          trustDomain,
          `its last root ends ${new Date(last).toISOString()}`,
          'Have the CA add its next root now: clients have to learn it before leaves are under it',
        ),
      )
    return findings.length > 0
      ? findings
      : [ok('roots', trustDomain, `${roots.length} known, none is stopped or rejected`)]
  })
}

function rootFindings(trustDomain: string, { fingerprint, phase, waitsFor }: RootStatus): Finding[] {
  const root = fingerprint.slice(0, 16)
  const held: Finding[] =
    phase === 'held'
      ? [warning('roots', trustDomain, `the rotation of root ${root} is stopped`, `Run: livery trust resume ${root}`)]
      : []
  const rejected = waitsFor.find(({ reason }) => reason !== undefined)
  if (!rejected) return held
  const text = scrub(`root ${root} is rejected by ${rejected.client}: ${rejected.reason}`)
  return [...held, wrong('roots', trustDomain, text, 'Correct that client; livery trust status lists all of them')]
}

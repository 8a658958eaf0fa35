/** Secrets that clients reject, roots whose rotation is held, and roots that end. */
import type { BundleEntry, RootStatus, RotationStatus } from '@livery/core'
import type { AgentSource, Rejection } from './facts.ts'
import type { Problem } from './problem.ts'
import { counted, shellWord } from './problem-text.ts'

/** A root is replaced over weeks: every client has to learn the next one. */
const ROOT_MS = 30 * 86_400_000

export function trustProblems(source: AgentSource, rejections: readonly Rejection[]): readonly Problem[] {
  const rotations = source.rotations()
  const subjects = new Map(source.bundles().flatMap(subjectsOf))
  return [
    ...rejectionProblem(rejections),
    ...rotations.flatMap(({ trustDomain, roots }) =>
      roots.filter(isHeldUp).map(root => rotationProblem(trustDomain, root, subjects.get(root.fingerprint) ?? '')),
    ),
    ...rotations.flatMap(rotation => lastRootProblem(rotation, source.clock.now())),
  ]
}

function subjectsOf({ roots }: BundleEntry): readonly (readonly [string, string])[] {
  return roots.map(({ fingerprint, certificate }) => [fingerprint, certificate.subject?.replaceAll('\n', ', ') ?? ''])
}

function rejectionProblem(rejections: readonly Rejection[]): Problem[] {
  const [first] = rejections
  if (!first) return []
  return [
    {
      affected: [],
      code: 'secrets-rejected',
      severity: 'warning',
      what: `${counted(rejections.length, 'client rejects what it was', 'clients reject what they were')} sent: ${first.name}`,
      reason: `${first.client} answered with a NACK and keeps what it had before.`,
      remedy: 'The events of the name have the reason that the client gave.',
      commands: [`livery explain ${shellWord(first.name)}`, 'livery streams'],
      runbook: 'secrets-rejected',
    },
  ]
}

function isHeldUp({ phase, waitsFor }: RootStatus): boolean {
  return phase === 'held' || waitsFor.some(({ reason }) => reason !== undefined)
}

function rotationProblem(trustDomain: string, root: RootStatus, subject: string): Problem {
  const { fingerprint, phase, waitsFor, waiting } = root
  const rejecting = waitsFor.find(({ reason }) => reason !== undefined)
  return {
    affected: [],
    code: rejecting ? 'root-rejected' : 'root-held',
    severity: 'warning',
    what: `The rotation of the root of ${trustDomain} is held: ${subject} (${fingerprint.slice(0, 16)})`,
    reason: rejecting
      ? `${rejecting.client} rejects the new root: ${rejecting.reason}`
      : phase === 'held' && waiting === 0
        ? 'An operator holds it.'
        : `${counted(waiting, 'client has', 'clients have')} not accepted it.`,
    remedy: rejecting
      ? 'Correct that client: certificates under the new root wait for it while the old ones last.'
      : 'Certificates under the new root wait for that while the old ones last.',
    commands: [
      ...(phase === 'held' ? [`livery trust resume ${fingerprint.slice(0, 16)}`] : []),
      'livery trust status',
      `livery explain ${shellWord(`spiffe://${trustDomain}`)}`,
    ],
    runbook: 'root-rotation-held',
  }
}

function lastRootProblem({ trustDomain, roots }: RotationStatus, now: number): Problem[] {
  if (roots.length === 0) return []
  const last = Math.max(...roots.map(({ notAfter }) => notAfter))
  if (last - now >= ROOT_MS) return []
  return [
    {
      affected: [],
      code: 'root-ends',
      severity: 'warning',
      what: `The last root of ${trustDomain} ends ${new Date(last).toISOString()}`,
      reason: 'No root that lasts longer is known.',
      remedy: 'Have the CA add its next root now: clients have to learn it before leaves are under it.',
      commands: ['livery trust status'],
      runbook: 'root-rotation-held',
    },
  ]
}

/** Secrets that clients reject, and roots whose rotation is held. */
import type { PageRoot, PageStream, PageTrustDomain } from '../../../agent/src/page/state.ts'
import { counted, shellWord, visible } from '../parts/text.ts'
import type { Facts } from './facts.ts'
import type { Problem } from './problem.ts'

export function trustProblems({ streams, roots }: Facts): Problem[] {
  const rejecting = streams?.shown.filter(({ rejected }) => rejected.length > 0) ?? []
  return [...rejectionProblem(rejecting), ...(roots?.trustDomains.flatMap(rotationProblems) ?? [])]
}

function rejectionProblem(rejecting: readonly PageStream[]): Problem[] {
  const [first] = rejecting
  const [name] = first?.rejected ?? []
  if (!first || name === undefined) return []
  return [
    {
      severity: 'warning',
      what: `${counted(rejecting.length, 'client rejects what it was', 'clients reject what they were')} sent: ${visible(name)}`,
      why: `${visible(clientOf(first))} answered with a NACK and keeps what it had before.`,
      remedy: 'The events of the name have the reason that the client gave.',
      commands: [`livery explain ${shellWord(name)}`, 'livery streams'],
      runbook: 'secrets-rejected',
      view: 'streams',
      name,
    },
  ]
}

/** The name by which an operator finds a client. */
export function clientOf({ node, subject, pid }: PageStream): string {
  if (node !== '') return node
  return subject ?? (pid === undefined ? 'a client' : `the process ${pid}`)
}

function rotationProblems({ trustDomain, roots }: PageTrustDomain): Problem[] {
  return roots
    .filter(root => root.phase === 'held' || root.waitsFor.some(({ reason }) => reason !== undefined))
    .map(root => rotationProblem(trustDomain, root))
}

function rotationProblem(trustDomain: string, { fingerprint, subject, phase, waitsFor, waiting }: PageRoot): Problem {
  const rejecting = waitsFor.find(({ reason }) => reason !== undefined)
  return {
    severity: 'warning',
    what: `The rotation of the root of ${visible(trustDomain)} is held: ${visible(subject)} (${fingerprint.slice(0, 12)})`,
    why: rejecting
      ? `${visible(rejecting.client)} rejects the new root: ${visible(rejecting.reason ?? '')}`
      : phase === 'held' && waiting === 0
        ? 'An operator holds it.'
        : `${counted(waiting, 'client has', 'clients have')} not accepted it.`,
    remedy: 'No certificate under the new root is served before each client has it.',
    commands: ['livery doctor', 'livery trust status', `livery explain ${shellWord(`spiffe://${trustDomain}`)}`],
    runbook: 'root-rotation-held',
    view: 'roots',
  }
}

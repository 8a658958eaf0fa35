/** `livery trust`: shows the root rotations of the running agent, and changes them. */
import type { RootStatus, RotationStatus } from '@livery/core'
import { oneLine } from '@livery/core/plugin'
import type { TrustStatus } from '../admin/routes.ts'
import type { ConfigSources } from '../config/layers.ts'
import { formatAge } from '../observe/format-age.ts'
import { trustForm } from './admin-answers.ts'
import { readAdmin } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

export async function showRotations(
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const trust = await readAdmin<TrustStatus>('/trust', trustForm, sources)
  terminal.out(json ? `${printableJson(trust)}\n` : describeTrust(trust))
  return EXIT.ok
}

/** One block per trust domain, two lines per root, and below them the clients that the rotation waits for. */
export function describeTrust({ now, trustDomains }: TrustStatus): string {
  if (trustDomains.length === 0) return 'No root is known yet: livery explain ROOTCA shows why.\n'
  return trustDomains.map(trustDomain => describeDomain(trustDomain, now)).join('')
}

function describeDomain({ trustDomain, phase, roots }: RotationStatus, now: number): string {
  const lines = roots.flatMap(root => describeRoot(root, now))
  return `${oneLine(trustDomain)}: ${phase}\n${lines.map(line => `  ${line}\n`).join('')}`
}

/** Enough digits of a fingerprint to identify a root. */
const SHOWN_DIGITS = 16

function describeRoot({ fingerprint, phase, leaves, ...root }: RootStatus, now: number): string[] {
  // A root that came with a certificate is on no list while it is in use.
  const isMissing = !root.isListed && (phase === 'retiring' || root.leavesAt !== undefined)
  const facts = [
    `${leaves} ${leaves === 1 ? 'certificate' : 'certificates'}`,
    ...(isMissing ? ['not listed'] : []),
    ...(phase === 'announcing' && root.settlesAt > now ? [`settles in ${formatAge(root.settlesAt - now)}`] : []),
    ...(root.leavesAt === undefined ? [] : [`leaves in ${formatAge(root.leavesAt - now)}`]),
  ]
  return [
    `${oneLine(fingerprint).slice(0, SHOWN_DIGITS)}  ${phase.padEnd('announcing'.length)}  ${facts.join(', ')}`,
    `  known for ${formatAge(now - root.learnedAt)}, expires ${new Date(root.notAfter).toISOString()}`,
    ...waitingLines(root),
  ]
}

function waitingLines({ waiting, waitsFor }: Pick<RootStatus, 'waiting' | 'waitsFor'>): readonly string[] {
  const lines = waitsFor.map(({ client, reason }) =>
    oneLine(reason === undefined ? `waits for ${client}` : `rejected by ${client}: ${reason}`),
  )
  const more = waiting - waitsFor.length
  return [...lines, ...(more > 0 ? [`and ${more} more clients`] : [])].map(line => `  ${line}`)
}

/** The roots of the page, with the phase of their rotation. */
import type { RotationStatus } from '@livery/core'
import { oneLine } from '@livery/core/plugin'
import type { AdminSource } from '../admin/admin-source.ts'
import type { PageRoot, PageRoots } from './state.ts'

export function composeRoots(source: Pick<AdminSource, 'bundles' | 'rotations'>): PageRoots {
  const anchors = source.bundles().flatMap(({ roots }) => roots)
  const subjects = new Map(anchors.map(({ fingerprint, certificate }) => [fingerprint, certificate.subject ?? '']))
  return {
    trustDomains: source.rotations().map(({ trustDomain, phase, roots }) => ({
      trustDomain,
      phase,
      roots: roots.map(root => rootRow(root, subjects.get(root.fingerprint) ?? '')),
    })),
  }
}

function rootRow(root: RotationStatus['roots'][number], subject: string): PageRoot {
  const { fingerprint, phase, isListed, leaves, waiting, waitsFor, learnedAt, leavesAt, notAfter } = root
  return {
    fingerprint,
    subject: oneLine(subject.replaceAll('\n', ', ')),
    notAfter,
    phase,
    isListed,
    leaves,
    learnedAt,
    ...(leavesAt !== undefined && { leavesAt }),
    waiting,
    waitsFor,
  }
}

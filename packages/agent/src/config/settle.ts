/** How long new roots settle under a configuration, and which pairs of settings can break traffic while roots change. */
import { defaultSettleMs, hearingTime, LATEST_CHANGE, type SettleFacts } from '@livery/core'
import type { CACapabilities } from '@livery/core/plugin'
import { formatDuration } from '../schema/duration.ts'
import type { CASection } from './ca-section.ts'
import type { Settings } from './schema.ts'

type SettleSettings = Pick<Settings, 'rotation' | 'trust' | 'ttl'>

/** The configured settle time, milliseconds; `undefined`: core's default, which depends on the CA's client. */
export function configuredSettle(settings: SettleSettings, ca: CASection): number | undefined {
  return settings.rotation.settle ?? (ca.members && defaultSettleMs(factsOf(settings, ca)))
}

/** One line for each pair of settings that lets a node serve a certificate before another can verify it. */
export function settleWarnings(settings: SettleSettings, ca: CASection): string[] {
  const facts = factsOf(settings, ca)
  const { settle = defaultSettleMs(facts) } = settings.rotation
  const { lifetimeMs, ratio, jitter, pollMs, roots } = facts
  const hearing = hearingTime(facts)
  const longest = Math.max(0, LATEST_CHANGE - ratio - jitter) * lifetimeMs
  const when = roots === 'poll' ? `every trust.poll, ${formatDuration(pollMs)}` : 'when they renew a certificate'
  if (settle < hearing)
    return [
      `rotation.settle ${formatDuration(settle)}: nodes hear of a new root up to ${formatDuration(hearing)} after the CA has it (${when}), and until then refuse certificates that others serve under it. Write ${formatDuration(defaultSettleMs(facts))} or more, or remove the key.`,
    ]
  if (roots !== 'poll' || settle <= longest) return []
  return [
    `trust.poll ${formatDuration(pollMs)} with ttl ${formatDuration(lifetimeMs)}: a certificate can wait ${formatDuration(Math.floor(longest / 1_000) * 1_000)} for its root to settle, less than the ${formatDuration(settle)} that it takes, and is served before all nodes know the root. Write a trust.poll of ${formatDuration(Math.floor(longest / 3_000) * 1_000)} or less, or a longer ttl.`,
  ]
}

function factsOf({ rotation, trust, ttl }: SettleSettings, ca: CASection): SettleFacts {
  const { ratio, jitter } = rotation
  return { roots: slowestNews(ca), pollMs: trust.poll, lifetimeMs: ttl, ratio, jitter }
}

/** The slowest first. */
const NEWS: readonly CACapabilities['roots'][] = ['none', 'poll', 'push']

/** A list of CAs reports new roots as late as its slowest CA does. */
function slowestNews({ plugin, members }: CASection): CACapabilities['roots'] {
  if (!members) return plugin.capabilities.roots
  const all = members.map(slowestNews)
  return NEWS.find(news => all.includes(news)) ?? 'push'
}

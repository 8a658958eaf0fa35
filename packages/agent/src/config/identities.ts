/** From the entries of `identities` to the list of identities, and the checks that no single value can fail. */

import { isSpiffeId, type SpiffeId, trustDomainOf } from '@livery/core'
import type { Finding } from '../schema/config-error.ts'
import { childPath } from '../schema/document.ts'
import type { IdentitySetting } from './schema.ts'

/** One identity that the agent holds. */
export interface ConfiguredIdentity {
  readonly id: SpiffeId
  /** Absolute path of its own socket, where `default` means it. */
  readonly socket: string | undefined
  /** Absolute path of its own token file. */
  readonly tokenFile: string | undefined
}

const MAX_IDENTITIES = 100_000

/** Writes ranges out, in order; findings tell what is wrong with which entry. */
export function expandIdentities(
  settings: readonly IdentitySetting[],
  trustDomain: string,
): { readonly identities: readonly ConfiguredIdentity[]; readonly findings: readonly Finding[] } {
  const identities = new Map<SpiffeId, ConfiguredIdentity>()
  const findings: Finding[] = []
  // Those of an entry that is refused count as well.
  let room = MAX_IDENTITIES
  for (const [index, setting] of settings.entries()) {
    const path = childPath('identities', index)
    const expanded = 'range' in setting ? expandRange(setting.range, room) : [setting.id]
    if (typeof expanded === 'string') {
      findings.push({ path: `${path}.range`, text: expanded })
      continue
    }
    room -= expanded.length
    const finding = addAll(expanded, setting, trustDomain, identities)
    if (finding !== undefined) findings.push({ path, text: finding })
  }
  return { identities: [...identities.values()], findings }
}

function addAll(
  ids: readonly string[],
  setting: IdentitySetting,
  trustDomain: string,
  identities: Map<SpiffeId, ConfiguredIdentity>,
): string | undefined {
  for (const id of ids) {
    if (!isSpiffeId(id))
      return `${JSON.stringify(id)} is no SPIFFE ID. Write spiffe://<trust domain>/<path> around the brace.`
    if (trustDomainOf(id) !== trustDomain) {
      return `${id} is not in the trust domain ${trustDomain} of this agent. Change it, or trustDomain.`
    }
    if (identities.has(id)) return `${id} is listed twice. Remove one of the entries.`
    const socket = 'socket' in setting ? setting.socket : undefined
    identities.set(id, { id, socket, tokenFile: setting.tokenFile })
  }
  return undefined
}

/** `sa-{0..2}` → `sa-0`, `sa-1`, `sa-2`; a text where it cannot be. */
export function expandRange(range: string, room: number): readonly string[] | string {
  const [, before = '', first = '', last = '', after = ''] = /^(.*)\{(\d+)\.\.(\d+)\}(.*)$/s.exec(range) ?? []
  const shown = JSON.stringify(range)
  for (const end of [first, last]) {
    if (end.length > 1 && end.startsWith('0'))
      return `${shown} pads its numbers. Write ${Number(end)} instead of ${end}.`
  }
  const [from, to] = [Number(first), Number(last)]
  if (!Number.isSafeInteger(to)) return `${shown} has too large a number. Write a smaller range.`
  if (from > to) return `${shown} counts down. Write the smaller number first.`
  if (to - from >= room) return `${shown} makes more than ${MAX_IDENTITIES} identities in all. Write a smaller range.`
  return Array.from({ length: to - from + 1 }, (_, index) => `${before}${from + index}${after}`)
}

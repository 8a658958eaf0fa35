/** From the entries of `identities` to the list of identities, and the checks that no single value can fail. */

import { isSpiffeId, type SpiffeId, trustDomainOf } from '@livery/core'
import type { Finding } from '../schema/config-error.ts'
import { childPath } from '../schema/document.ts'
import type { IdentitySetting, OwnSocket } from './schema.ts'

/** One identity that the agent holds. */
export interface ConfiguredIdentity {
  readonly id: SpiffeId
  /** Its own socket, where `default` means it. The path is absolute. */
  readonly socket: OwnSocket | undefined
  /** Absolute path of its own token file. */
  readonly tokenFile: string | undefined
}

const MAX_IDENTITIES = 100_000
/** Stands for the last segment of the SPIFFE ID in the path of an own socket. */
const NAME = '{name}'

export interface ExpandedIdentities {
  readonly identities: readonly ConfiguredIdentity[]
  /** Each own socket, with the path of the key that names it. */
  readonly sockets: readonly { readonly socket: string; readonly path: string }[]
  readonly findings: readonly Finding[]
}

/** Writes ranges out, in order; each finding names the entry that is wrong. */
export function expandIdentities(settings: readonly IdentitySetting[], trustDomain: string): ExpandedIdentities {
  const identities = new Map<SpiffeId, ConfiguredIdentity>()
  const findings: Finding[] = []
  const sockets: { socket: string; path: string }[] = []
  // Those of an entry that is refused count as well.
  let room = MAX_IDENTITIES
  for (const [index, setting] of settings.entries()) {
    const path = childPath('identities', index)
    const expanded = setting.range === undefined ? [setting.id] : expandRange(setting.range, room)
    if (typeof expanded === 'string') {
      findings.push({ path: `${path}.range`, text: expanded })
      continue
    }
    room -= expanded.length
    const { socket } = setting
    if (socket && expanded.length > 1 && !socket.path.includes(NAME)) {
      const text = `${socket.path} is one path for ${expanded.length} identities. Write ${NAME} in it, which is the last segment of each SPIFFE ID.`
      findings.push({ path: `${path}.socket`, text })
      continue
    }
    const finding = addAll(expanded, setting, trustDomain, identities)
    if (finding !== undefined) findings.push({ path, text: finding })
    else if (socket) for (const id of expanded) sockets.push({ socket: socketPath(socket, id), path: `${path}.socket` })
  }
  return { identities: [...identities.values()], sockets, findings }
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
    const { socket, tokenFile } = setting
    identities.set(id, { id, socket: socket && { ...socket, path: socketPath(socket, id) }, tokenFile })
  }
  return undefined
}

/** A segment of a SPIFFE ID has no slash and is not "..", so the path leads out of no folder. */
function socketPath({ path }: OwnSocket, id: string): string {
  return path.replaceAll(NAME, id.slice(id.lastIndexOf('/') + 1))
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

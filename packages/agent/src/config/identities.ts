/** Expands the entries of `identities` to a list, with the checks that no single value can fail. */

import type { CertificateWish } from '@livery/core'
import { isSpiffeId, type SpiffeId, trustDomainOf } from '@livery/core/plugin'
import type { Problem } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import type { IdentitySetting } from './identity-schema.ts'
import type { OutputSetting } from './output-schema.ts'
import type { OwnSocket } from './socket-schema.ts'
import { wishOf } from './wish-schema.ts'

/** One identity that the agent holds. */
export interface ConfiguredIdentity {
  readonly id: SpiffeId
  /** Its own socket, on which `default` means this identity. The path is absolute. */
  readonly socket: OwnSocket | undefined
  /** Absolute path of the identity's own token file. */
  readonly tokenFile: string | undefined
  /** The requested content of its certificate; `undefined`: its SPIFFE ID, and the agent's settings for the rest. */
  readonly wish: CertificateWish | undefined
  /** Where to write its certificate. */
  readonly output: OutputSetting | undefined
}

const MAX_IDENTITIES = 100_000
/** Replaced by the last segment of the SPIFFE ID in paths of own sockets and output directories. */
export const NAME = '{name}'

/** The path of a socket, and the key that names it. */
export interface NamedSocket {
  readonly socket: string
  readonly key: Location
}

export interface ExpandedIdentities {
  readonly identities: readonly ConfiguredIdentity[]
  /** The own sockets. */
  readonly sockets: readonly NamedSocket[]
  readonly problems: readonly Problem[]
}

/** Expands the entries of the list at `at`, in order, and reports their problems. */
export function expandIdentities(
  settings: readonly IdentitySetting[],
  trustDomain: string,
  at: Location,
): ExpandedIdentities {
  const identities = new Map<SpiffeId, ConfiguredIdentity>()
  const problems: Problem[] = []
  const sockets: NamedSocket[] = []
  // The identities of a refused entry count as well.
  let room = MAX_IDENTITIES
  for (const [index, setting] of settings.entries()) {
    const entry = at.child(index)
    const expanded = setting.range === undefined ? [setting.id] : expandRange(setting.range, room)
    if (expanded instanceof Fault) {
      problems.push(entry.child('range').problem(expanded))
      continue
    }
    room -= expanded.length
    const { socket, output } = setting
    const key = entry.child('socket')
    const shared = sharedPath(socket?.path, expanded.length) ?? sharedPath(output?.directory, expanded.length)
    if (shared) {
      problems.push((sharedPath(socket?.path, expanded.length) ? key : entry.child('output')).problem(shared))
      continue
    }
    const fault = addAll(expanded, setting, trustDomain, identities)
    if (fault) problems.push(entry.problem(fault))
    else if (socket) for (const id of expanded) sockets.push({ socket: withName(socket.path, id), key })
  }
  return { identities: [...identities.values()], sockets, problems }
}

function addAll(
  ids: readonly string[],
  setting: IdentitySetting,
  trustDomain: string,
  identities: Map<SpiffeId, ConfiguredIdentity>,
): Fault | undefined {
  const wish = wishOf(setting)
  for (const id of ids) {
    if (!isSpiffeId(id))
      return new Fault(
        `${JSON.stringify(id)} is not a SPIFFE ID`,
        'Write spiffe://<trust domain>/<path> around the brace',
      )
    if (trustDomainOf(id) !== trustDomain)
      return new Fault(`${id} is not in the trust domain ${trustDomain} of this agent`, 'Change it, or trustDomain')
    if (identities.has(id)) return new Fault(`${id} is listed twice`, 'Remove one of the entries')
    const { socket, tokenFile, output } = setting
    identities.set(id, {
      id,
      socket: socket && { ...socket, path: withName(socket.path, id) },
      tokenFile,
      wish,
      output: output && { ...output, directory: withName(output.directory, id) },
    })
  }
  return undefined
}

function sharedPath(path: string | undefined, identities: number): Fault | undefined {
  if (path === undefined || identities < 2 || path.includes(NAME)) return undefined
  return new Fault(
    `${path} is one path for ${identities} identities`,
    `Write ${NAME} in it, which is the last segment of each SPIFFE ID`,
  )
}

/** A segment of a SPIFFE ID has no slash and is not "..", so the path leads out of no folder. */
export function withName(path: string, id: string): string {
  return path.replaceAll(NAME, id.slice(id.lastIndexOf('/') + 1))
}

/** `sa-{0..2}` → `sa-0`, `sa-1`, `sa-2` */
export function expandRange(range: string, room: number): readonly string[] | Fault {
  const [, before = '', first = '', last = '', after = ''] = /^(.*)\{(\d+)\.\.(\d+)\}(.*)$/s.exec(range) ?? []
  const shown = JSON.stringify(range)
  for (const end of [first, last])
    if (end.length > 1 && end.startsWith('0'))
      return new Fault(`${shown} pads its numbers`, `Write ${Number(end)} instead of ${end}`)
  const [from, to] = [Number(first), Number(last)]
  if (!Number.isSafeInteger(to)) return new Fault(`${shown} has too large a number`, 'Write a smaller range')
  if (from > to) return new Fault(`${shown} counts down`, 'Write the smaller number first')
  if (to - from >= room)
    return new Fault(`${shown} makes more than ${MAX_IDENTITIES} identities in all`, 'Write a smaller range')
  return Array.from({ length: to - from + 1 }, (_, index) => `${before}${from + index}${after}`)
}

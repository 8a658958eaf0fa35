/** The check of key requests that every generator makes at its door. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  dnsNamesProblem,
  KEY_TYPES,
  type KeyRequest,
  type KeyType,
  type PrivateKeyFormat,
  spiffeIdProblem,
} from '@livery/core/plugin'

const FORMATS: readonly PrivateKeyFormat[] = ['pkcs8', 'traditional']

/** `request` with its defaults filled in, read once; throws a `TypeError` that names the field, which starts with `path`. */
export function checkKeyRequest(request: KeyRequest, path = 'request'): Required<KeyRequest> {
  if (typeof request !== 'object' || request === null) throw wrong(path, request, 'it must be an object')
  const { type, identity, format = 'pkcs8', dnsNames = [] } = request
  if (!isOneOf<KeyType>(KEY_TYPES, type)) throw wrong(`${path}.type`, type, `it must be ${oneOf(KEY_TYPES)}`)
  if (!isOneOf(FORMATS, format)) throw wrong(`${path}.format`, format, `it must be ${oneOf(FORMATS)}`)
  if (typeof identity !== 'string') throw wrong(`${path}.identity`, identity, 'it must be a SPIFFE ID')
  const problem = spiffeIdProblem(identity)
  if (problem) throw wrong(`${path}.identity`, identity, `it must be a SPIFFE ID, but ${problem}`)
  const names = Array.isArray(dnsNames) ? dnsNamesProblem(dnsNames) : 'it is not a list'
  if (names !== undefined) throw wrong(`${path}.dnsNames`, dnsNames, `it must be a list of DNS names, but ${names}`)
  return { type, identity, dnsNames, format }
}

/** Requests that are checked in one turn of the event loop: some milliseconds. */
const SLICE = 1000

/** The same for a batch: `requests[3].type` is what a message names. */
export async function checkKeyRequests(requests: readonly KeyRequest[]): Promise<readonly Required<KeyRequest>[]> {
  if (!Array.isArray(requests)) throw wrong('requests', requests, 'it must be an array')
  const checked: Required<KeyRequest>[] = []
  for (const [index, request] of Array.from<KeyRequest>(requests).entries()) {
    if (index > 0 && index % SLICE === 0) await nextTurn()
    checked.push(checkKeyRequest(request, `requests[${index}]`))
  }
  return checked
}

function isOneOf<T extends string>(allowed: readonly T[], value: unknown): value is T {
  return allowed.some(name => name === value)
}

function oneOf(names: readonly string[]): string {
  return `one of ${names.join(', ')}`
}

function wrong(field: string, value: unknown, reason: string): TypeError {
  const shown = typeof value === 'string' ? JSON.stringify(value.slice(0, 256)) : value === null ? 'null' : typeof value
  return new TypeError(`Cannot generate a key: ${field} is ${shown}; ${reason}`)
}

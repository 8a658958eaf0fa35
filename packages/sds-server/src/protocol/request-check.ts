/** Checks a discovery request before anything else is done with it. */
import { escapePeerName } from './escape-peer-name.ts'
import { StreamRefusal } from './stream-refusal.ts'

/** The only resource type on an SDS stream. */
export const SECRET_TYPE_URL = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

const MAX_NAME_BYTES = 2048

/**
 * Refuses any other type. An empty type means the type of the method, as the xDS protocol allows for APIs with one
 * type.
 */
export function checkTypeUrl(typeUrl: string): void {
  if (typeUrl === '' || typeUrl === SECRET_TYPE_URL) return
  throw new StreamRefusal(
    'invalid-argument',
    `type_url "${escapePeerName(typeUrl)}" is not served here: ask for "${SECRET_TYPE_URL}"`,
  )
}

/** Refuses a stream whose first request has no node id; later requests may leave the node out. */
export function checkNode(node: { readonly id: string } | undefined): string {
  if (node?.id) return escapePeerName(node.id)
  throw new StreamRefusal(
    'invalid-argument',
    'missing node information: the first request of a stream has to set node.id',
  )
}

/** Refuses more than `limit` names, and one that cannot be a resource name. */
export function checkNames(names: readonly string[], limit: number): void {
  checkCount(names.length, limit)
  for (const name of names) {
    const problem = nameProblem(name)
    if (problem) throw new StreamRefusal('invalid-argument', `resource name "${escapePeerName(name)}" ${problem}`)
  }
}

/** Refuses more than `limit` names. */
export function checkCount(count: number, limit: number): void {
  if (count <= limit) return
  throw new StreamRefusal('invalid-argument', `${count} resource names on one stream: at most ${limit} are taken`)
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'is empty'
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `is longer than ${MAX_NAME_BYTES} bytes`
  // The decoder puts U+FFFD where the bytes were not UTF-8.
  if (name.includes('\ufffd')) return 'is not UTF-8'
  if (/\p{Cc}/u.test(name)) return 'has a control character'
  return undefined
}

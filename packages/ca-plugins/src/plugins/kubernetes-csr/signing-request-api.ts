/** The calls of certificates.k8s.io that this plugin makes. */
import { caError } from '../../answers/ca-error.ts'
import type { ApiConnection, Caller } from '../../kubernetes-api/api-connection.ts'
import type { ApiCall } from '../../kubernetes-api/api-errors.ts'
import { readWatchEvents } from '../../kubernetes-api/watch-events.ts'
import { readSigningRequest, type SigningRequest } from './signing-request.ts'

export interface NewSigningRequest {
  /** The request's name; with `generateName`, the start of the name that the server makes. */
  readonly name: string
  readonly generateName?: boolean
  readonly request: string
  readonly signerName: string
  readonly usages: readonly string[]
  readonly expirationSeconds: number
}

/** An event of a watch, which ends without an event when the server or the network ends it. */
type Change = { readonly kind: 'changed'; readonly request: SigningRequest } | { readonly kind: 'deleted' }

const RESOURCE = 'certificatesigningrequests'
const PATH = `/apis/certificates.k8s.io/v1/${RESOURCE}`

export class SigningRequestApi {
  readonly #connection: ApiConnection

  constructor(connection: ApiConnection) {
    this.#connection = connection
  }

  /** `undefined` if the name is taken. Rejects with a `CAError`, or the signal's reason. */
  async create(asked: NewSigningRequest, whose: string, caller: Caller): Promise<SigningRequest | undefined> {
    const call = { what: `create the request ${asked.name} ${whose}`, verb: 'create', resource: RESOURCE } as const
    const { status, json } = await this.#connection.request(call, caller, {
      method: 'POST',
      path: PATH,
      body: bodyOf(asked),
      expected: [409],
    })
    return status === 409 ? undefined : understood(json, call)
  }

  /** The current request; `undefined` if none has that name. Rejects as {@link create} does. */
  async find(name: string, whose: string, caller: Caller): Promise<SigningRequest | undefined> {
    const call = { what: `look for the request ${name} ${whose}`, verb: 'list', resource: RESOURCE } as const
    const query = new URLSearchParams({ fieldSelector: `metadata.name=${name}` })
    const { json } = await this.#connection.request(call, caller, { path: `${PATH}?${query}` })
    const found: unknown = Array.isArray(json['items']) ? json['items'][0] : undefined
    return found === undefined ? undefined : understood(found, call)
  }

  /** The later events of `from`. Rejects as {@link create} does if the watch cannot begin, or ends with an error that lasts. */
  async *watch(from: SigningRequest, whose: string, caller: Caller): AsyncGenerator<Change, void> {
    const call = { what: `watch the request ${from.name} ${whose}`, verb: 'watch', resource: RESOURCE } as const
    const query = new URLSearchParams({
      watch: 'true',
      fieldSelector: `metadata.name=${from.name}`,
      resourceVersion: from.resourceVersion,
      allowWatchBookmarks: 'true',
    })
    const body = this.#connection.stream(call, caller, { path: `${PATH}?${query}` })
    for await (const { type, object } of readWatchEvents(body)) {
      if (type === 'DELETED') yield { kind: 'deleted' }
      // The content of a bookmark is not needed: the next watch begins with a look in any case.
      else if (type === 'ADDED' || type === 'MODIFIED') yield { kind: 'changed', request: understood(object, call) }
      // 410: the version to begin with is too old. Any other error: the server has trouble, and the next look says which.
      else if (type === 'ERROR') return
    }
  }

  /** The PEM of a ClusterTrustBundle. Rejects as {@link create} does. */
  async trustBundle(name: string, caller: Caller): Promise<string> {
    const call = { what: `read the ClusterTrustBundle ${name}`, verb: 'get', resource: 'clustertrustbundles' } as const
    const at = (version: string) =>
      `/apis/certificates.k8s.io/${version}/clustertrustbundles/${encodeURIComponent(name)}`
    const stable = await this.#connection.request(call, caller, { path: at('v1'), expected: [404] })
    // Kubernetes 1.36 serves it in no other version.
    const isElsewhere = stable.status === 404
    const { json } = isElsewhere ? await this.#connection.request(call, caller, { path: at('v1beta1') }) : stable
    const { trustBundle } = Object(json['spec'])
    return typeof trustBundle === 'string' ? trustBundle : ''
  }
}

function bodyOf(asked: NewSigningRequest): object {
  const { name, generateName = false, request, signerName, usages, expirationSeconds } = asked
  return {
    apiVersion: 'certificates.k8s.io/v1',
    kind: 'CertificateSigningRequest',
    metadata: generateName ? { generateName: name } : { name },
    spec: { request, signerName, usages: [...usages], expirationSeconds },
  }
}

function understood(value: unknown, { what }: ApiCall): SigningRequest {
  const request = readSigningRequest(value)
  if (request) return request
  throw caError('bad-response', {
    action: what,
    reason: 'its answer is not a CertificateSigningRequest',
    remedy: 'Check that this is an API server',
  })
}

/** A stand-in for the pods and Secrets of the Kubernetes API over real HTTPS: pages, versions, watches with bookmarks, 410, tokens and their review, faults on demand. */
import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { SystemClock } from '@livery/core/plugin'
import { listening, portOf } from '@livery/test-support'
import { CertificateAuthority } from '../../ca-plugins/src/plugins/embedded/certificate-authority.ts'

export const NODE = 'node-1'
const TOKEN = 'token-of-the-agent'

const ACCOUNT = /^\/api\/v1\/namespaces\/(?<namespace>[^/]+)\/serviceaccounts\/(?<name>[^/]+)\/token$/

const SECRETS = /^(?<list>\/api\/v1\/namespaces\/[^/]+\/secrets)(?:\/(?<name>[^/]+))?$/

const REVIEWS = '/apis/authentication.k8s.io/v1/tokenreviews'

export interface PodInit {
  readonly name: string
  readonly namespace?: string
  readonly serviceAccount?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly node?: string
  readonly phase?: string
  /** Default: a new one. */
  readonly uid?: string
}

interface Resource {
  /** Default: a pod. */
  readonly kind?: 'Secret'
  readonly metadata: {
    readonly name: string
    readonly namespace: string
    readonly uid: string
    readonly labels: Readonly<Record<string, string>>
    readonly annotations: Readonly<Record<string, string>>
    readonly resourceVersion?: string
    readonly deletionTimestamp?: string
  }
}

export interface PodResource extends Resource {
  readonly spec: object
  readonly status: { readonly phase: string }
}

interface SecretResource extends Resource {
  readonly data: Readonly<Record<string, string>>
}

/** A Secret of some fields. */
export function secretResource(
  namespace: string,
  name: string,
  fields: Readonly<Record<string, string>>,
): SecretResource {
  const data = Object.fromEntries(
    Object.entries(fields).map(([field, text]) => [field, Buffer.from(text).toString('base64')]),
  )
  return { kind: 'Secret', metadata: { name, namespace, uid: randomUUID(), labels: {}, annotations: {} }, data }
}

/** A pod as the API server describes it, chosen by default, with fields that nobody needs. */
export function podResource(init: PodInit): PodResource {
  const { name, namespace = 'default', serviceAccount = 'web', labels = { 'livery.dev/inject': 'true' } } = init
  const { annotations = {}, node = NODE, phase = 'Running', uid = randomUUID() } = init
  return {
    metadata: { name, namespace, uid, labels, annotations },
    spec: { nodeName: node, serviceAccountName: serviceAccount, containers: [{ name: 'main', image: 'example/main' }] },
    status: { phase },
  }
}

interface PodCall {
  readonly verb: 'list' | 'watch' | 'get' | 'token' | 'review'
  readonly path: string
  readonly query: URLSearchParams
}

/** Takes the place of an answer: a status, a body, or nothing at all. */
export type PodFault =
  | { readonly status: number; readonly message?: string; readonly retryAfter?: string; readonly reason?: string }
  | { readonly body: string | Buffer }
  | 'hang'

/** A token is good while the pod to which it is bound is there. */
interface IssuedToken {
  readonly username: string
  readonly audiences: readonly string[]
  /** As `keyOf` has it, and its UID. */
  readonly pod: string
  readonly uid: string
}

interface Recorded {
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Resource
}

export class PodApiServer implements AsyncDisposable {
  readonly calls: PodCall[] = []
  /** Asked at each call; `undefined`: it is served. */
  fault: (call: PodCall) => PodFault | undefined = () => undefined
  /** The longest life of a token. */
  maxTokenSeconds = Number.POSITIVE_INFINITY
  /** Signs the claims of a token. Default: it is a text that has no claims. */
  signToken: ((claims: object) => string) | undefined
  /** Changes are in the next list, and in no event. */
  losesEvents = false
  /** Called with each event that goes out. */
  onWrite: (text: string) => void = () => {}
  /** Events go out in pieces of so many bytes. */
  pieceBytes = Number.POSITIVE_INFINITY
  readonly #server: Server
  readonly #roots: string
  readonly #sockets = new Set<Socket>()
  readonly #watches = new Map<ServerResponse, (event: Recorded) => void>()
  readonly #waiting = new Set<() => void>()
  readonly #objects = new Map<string, Resource>()
  #events: Recorded[] = []
  #version = 100
  /** Versions before are forgotten. */
  #compacted = 0
  #port = 0
  readonly #tokens = new Map<string, IssuedToken>()

  private constructor(tls: { readonly cert: string; readonly key: string }, roots: string) {
    this.#roots = roots
    this.#server = createServer(tls, (request, response) => this.#serve(request, response))
    this.#server.on('secureConnection', socket => {
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('error', () => {})
    })
  }

  static async start(): Promise<PodApiServer> {
    using clock = new SystemClock()
    const authority = await CertificateAuthority.open({ clock, trustDomain: 'kube.local', intermediate: false })
    const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
    const { chain, privateKey } = await authority.issueServerCertificate(names, 86_400)
    const server = new PodApiServer({ cert: chain, key: privateKey }, authority.trustBundle().join(''))
    await server.up()
    return server
  }

  /** The variables that kubelet gives a container. */
  get environment(): { readonly KUBERNETES_SERVICE_HOST: string; readonly KUBERNETES_SERVICE_PORT: string } {
    return { KUBERNETES_SERVICE_HOST: '127.0.0.1', KUBERNETES_SERVICE_PORT: String(this.#port) }
  }

  /** Writes the files of a service account below `root`, where kubelet mounts them. */
  async mountAccount(root: string): Promise<void> {
    const folder = join(root, 'var/run/secrets/kubernetes.io/serviceaccount')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'token'), TOKEN)
    await writeFile(join(folder, 'ca.crt'), this.#roots)
  }

  /** Adds the object, or changes the one of its name. */
  put(object: PodResource | SecretResource): void {
    const key = keyOf(object)
    const type = this.#objects.has(key) ? 'MODIFIED' : 'ADDED'
    this.#objects.set(key, this.#record(type, object))
  }

  delete(object: PodResource | SecretResource): void {
    this.#objects.delete(keyOf(object))
    this.#record('DELETED', object)
  }

  /** Forgets every version before now, as an API server does after some minutes. */
  compact(): void {
    this.#compacted = this.#version
    this.#events = []
  }

  /** Sends a bookmark on every watch, whose version is after events that no watch is interested in. */
  bookmark(): void {
    const object = { kind: 'Pod', metadata: { resourceVersion: String(++this.#version) } }
    for (const response of this.#watches.keys()) this.#write(response, { type: 'BOOKMARK', object })
  }

  /** Sends `text` on every watch as it is. */
  say(text: string): void {
    for (const response of this.#watches.keys()) response.write(text)
  }

  /** Ends every watch as the server does after a time. */
  endWatches(): void {
    for (const response of this.#watches.keys()) response.end()
  }

  /** Resolves when there are so many watches. */
  async watched(count: number): Promise<void> {
    while (this.#watches.size !== count) await new Promise(setImmediate)
  }

  /** Listens on the port that it had. */
  async up(): Promise<void> {
    await listening(this.#server, this.#port)
    this.#port = portOf(this.#server)
  }

  /** Cuts every connection, and refuses others. */
  async down(): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** Resolves with the `count`th call that matches, come or to come. */
  async called(verb: PodCall['verb'], count = 1): Promise<PodCall> {
    for (;;) {
      const found = this.calls.filter(call => call.verb === verb)[count - 1]
      if (found) return found
      await new Promise<void>(resolve => this.#waiting.add(resolve))
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#server.listening) await this.down()
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { url = '', headers } = request
    const { pathname, searchParams: query } = new URL(url, 'https://kube')
    const account = ACCOUNT.exec(pathname)?.groups
    const secret = SECRETS.exec(pathname)?.groups
    const isReview = pathname === REVIEWS
    const ofMany = query.get('watch') === 'true' ? 'watch' : 'list'
    const verb = account ? 'token' : isReview ? 'review' : secret?.['name'] ? 'get' : ofMany
    const call: PodCall = { verb, path: pathname, query }
    this.calls.push(call)
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
    const isCaller = headers.authorization === `Bearer ${TOKEN}`
    const fault = this.fault(call)
    if (!account && !isReview && !secret && pathname !== '/api/v1/pods') refuse(response, 404, 'not found')
    else if (!isCaller) refuse(response, 401, 'Unauthorized')
    else if (fault && typeof fault === 'object') answerWith(fault, response)
    else if (fault) return
    else if (account) void this.#token(account, request, response)
    else if (isReview) void this.#review(request, response)
    else if (call.verb === 'get') this.#get(`${secret?.['list']}/${secret?.['name']}`, response)
    else if (call.verb === 'watch') this.#watch(call, partOf(headers), response)
    else this.#list(call, partOf(headers), response)
  }

  #get(key: string, response: ServerResponse): void {
    const object = this.#objects.get(key)
    if (object) response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(object))
    else refuse(response, 404, `${key} not found`)
  }

  /** As TokenRequest has it: a token that is bound to a pod is for one that is there and has that account. */
  async #token(account: Readonly<Record<string, string>>, request: IncomingMessage, response: ServerResponse) {
    const { namespace = '', name = '' } = account
    const { spec } = Object(await json(request))
    const { boundObjectRef: bound, expirationSeconds: wished, audiences } = spec
    const pod = this.#objects.get(`/api/v1/pods/${namespace}/${bound.name}`)
    if (!pod) return refuse(response, 404, `pods "${bound.name}" not found`)
    if (pod.metadata.uid !== bound.uid)
      return refuse(response, 409, 'the UID in the bound object reference does not match')
    if (Object(pod).spec.serviceAccountName !== name) return refuse(response, 422, 'not the service account of the pod')
    const expirationSeconds = Math.min(wished, this.maxTokenSeconds)
    const username = `system:serviceaccount:${namespace}:${name}`
    const claims = {
      iss: 'https://kubernetes.default.svc',
      sub: username,
      aud: audiences,
      exp: Math.floor(Date.now() / 1_000) + expirationSeconds,
      jti: randomUUID(),
      'kubernetes.io': { namespace, pod: { name: bound.name, uid: bound.uid }, serviceaccount: { name } },
    }
    // The token has the form of a JWT.
    const token = this.signToken?.(claims) ?? `token-${this.#tokens.size + 1}.of-${namespace}-${name}.for-${audiences}`
    this.#tokens.set(token, { username, audiences, pod: keyOf(pod), uid: bound.uid })
    response.writeHead(201, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ kind: 'TokenRequest', spec: { ...spec, expirationSeconds }, status: { token } }))
  }

  /** As TokenReview has it. */
  async #review(request: IncomingMessage, response: ServerResponse) {
    const { spec } = Object(await json(request))
    const issued = this.#tokens.get(spec.token)
    const audiences = issued?.audiences.filter(audience => spec.audiences.includes(audience)) ?? []
    const isGood = issued && audiences.length > 0 && this.#objects.get(issued.pod)?.metadata.uid === issued.uid
    const status = isGood
      ? { authenticated: true, user: { username: issued.username }, audiences }
      : { authenticated: false, error: 'not a token of a pod that is there' }
    response.writeHead(201, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ kind: 'TokenReview', spec, status }))
  }

  #list({ path, query }: PodCall, part: PartOf, response: ServerResponse): void {
    const [version = this.#version, start = 0] = (query.get('continue') ?? '').split(':').filter(Boolean).map(Number)
    if (version < this.#compacted) {
      refuse(response, 410, 'The provided continue parameter is too old')
      return
    }
    const objects = [...this.#objects.values()].filter(object => isIn(object, path, query))
    const end = start + Number(query.get('limit') ?? objects.length)
    const metadata = {
      resourceVersion: String(version),
      ...(end < objects.length && { continue: `${version}:${end}` }),
    }
    const parts = objects.slice(start, end).map(part)
    // An API server (1.36) has no array for an empty list of metadata.
    const items = parts.length === 0 && part === metadataOf ? null : parts
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ kind: 'List', apiVersion: 'v1', metadata, items }))
  }

  #watch({ path, query }: PodCall, part: PartOf, response: ServerResponse): void {
    const from = Number(query.get('resourceVersion'))
    response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }).flushHeaders()
    if (from < this.#compacted) {
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: `too old resource version: ${from}` }
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`)
      return
    }
    const send = ({ version, type, object }: Recorded): void => {
      if (version > from && isIn(object, path, query)) this.#write(response, { type, object: part(object) })
    }
    for (const event of this.#events) send(event)
    this.#watches.set(response, send)
    response.on('close', () => this.#watches.delete(response))
  }

  #write(response: ServerResponse, event: object): void {
    const text = `${JSON.stringify(event)}\n`
    this.onWrite(text)
    const line = Buffer.from(text)
    for (let start = 0; start < line.length; start += this.pieceBytes)
      response.write(line.subarray(start, start + this.pieceBytes))
  }

  #record(type: Recorded['type'], { metadata, ...rest }: Resource): Resource {
    const object = { ...rest, metadata: { ...metadata, resourceVersion: String(++this.#version) } }
    if (this.losesEvents) return object
    const event = { version: this.#version, type, object }
    this.#events.push(event)
    for (const send of this.#watches.values()) send(event)
    return object
  }
}

/** The path of a pod is without its namespace, as the list of all pods is. */
function keyOf({ kind, metadata: { namespace, name } }: Resource): string {
  return kind === 'Secret' ? `/api/v1/namespaces/${namespace}/secrets/${name}` : `/api/v1/pods/${namespace}/${name}`
}

function isIn(object: Resource, path: string, query: URLSearchParams): boolean {
  const { kind, metadata } = object
  const field = kind === 'Secret' ? `metadata.name=${metadata.name}` : `spec.nodeName=${Object(object).spec.nodeName}`
  return keyOf(object).startsWith(`${path}/`) && query.get('fieldSelector') === field
}

type PartOf = (object: Resource) => object

/** What a call asks to see of each object. */
function partOf({ accept = '' }: IncomingMessage['headers']): PartOf {
  return accept.includes(';as=PartialObjectMetadata') ? metadataOf : object => object
}

function metadataOf({ metadata }: Resource): object {
  return { metadata }
}

function answerWith(fault: Exclude<PodFault, 'hang'>, response: ServerResponse): void {
  if ('status' in fault) refuse(response, fault.status, fault.message ?? 'refused', fault)
  else response.writeHead(200, { 'content-type': 'application/json' }).end(fault.body)
}

function refuse(
  response: ServerResponse,
  code: number,
  message: string,
  {
    retryAfter,
    reason = code === 404 ? 'NotFound' : 'Other',
  }: { readonly retryAfter?: string; readonly reason?: string } = {},
): void {
  response.writeHead(code, { 'content-type': 'application/json', ...(retryAfter && { 'retry-after': retryAfter }) })
  response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code, reason }))
}

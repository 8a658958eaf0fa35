/** A stand-in for the part of the Kubernetes API that signs: objects with versions and watches over real HTTPS, and faults on demand. */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { listening, portOf } from '@livery/test-support'
import { KubeObjects, StatusError, type StoredObject } from './kube-objects.ts'

export type KubeVerb = 'create' | 'get' | 'list' | 'watch' | 'update' | 'delete'

/** A call as it arrived. */
export interface KubeCall {
  readonly verb: KubeVerb
  readonly resource: string
  readonly version: string
  readonly name: string
  readonly token: string
  readonly query: URLSearchParams
  readonly body: string
}

/** Its action on a call in place of an answer. */
export type KubeFault =
  | {
      readonly kind: 'status'
      readonly code: number
      readonly message: string
      readonly headers?: Record<string, string>
    }
  /** The body as it stands, with status 200. */
  | { readonly kind: 'body'; readonly text: string; readonly type?: string }
  /** The connection breaks; `after`: the work is done first. */
  | { readonly kind: 'reset'; readonly after?: true }
  /** No answer, ever. */
  | { readonly kind: 'hang' }

type Handler = (call: KubeCall) => KubeFault | undefined | Promise<KubeFault | undefined>

const API = /^\/apis\/certificates\.k8s\.io\/(v1|v1beta1)\/(\w+)(?:\/([^/]+))?(?:\/(status|approval))?$/
/** What the API server says of a path that it does not have. */
const NOT_SERVED = status(404, 'the server could not find the requested resource')
const MAX_CALLS = 1024
const VERBS: Readonly<Record<string, KubeVerb>> = { POST: 'create', GET: 'get', PUT: 'update', DELETE: 'delete' }

interface KubeApiServerOptions {
  /** PEM. */
  readonly tls: { readonly cert: string; readonly key: string }
  /** The objects of a previous server, as after a restart. */
  readonly objects?: KubeObjects
  readonly port?: number
}

export class KubeApiServer implements AsyncDisposable {
  readonly objects: KubeObjects
  readonly calls: KubeCall[] = []
  /** Asked at each call; `undefined`: it is served. */
  fault: Handler = () => undefined
  /** Asked when an object has been made, before the answer: for a fault it is taken back. */
  admit: (object: StoredObject) => Promise<KubeFault | undefined> = async () => undefined
  /** The versions of certificates.k8s.io that have ClusterTrustBundles; Kubernetes 1.36 has only this one. */
  trustBundleVersions: readonly string[] = ['v1beta1']
  /** How many connections there have been. */
  connections = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  readonly #watches = new Set<ServerResponse>()
  readonly #waiting = new Set<() => void>()

  private constructor({ tls, objects = new KubeObjects() }: KubeApiServerOptions) {
    this.objects = objects
    this.#server = createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
      this.#serve(request, response).catch(() => request.socket.destroy())
    })
    this.#server.on('secureConnection', socket => {
      this.connections++
      this.#sockets.add(socket)
      socket.on('close', () => this.#sockets.delete(socket))
      socket.on('error', () => {})
    })
  }

  static async start(options: KubeApiServerOptions): Promise<KubeApiServer> {
    const server = new KubeApiServer(options)
    await listening(server.#server, options.port ?? 0)
    return server
  }

  get port(): number {
    return portOf(this.#server)
  }

  /** Resolves with the `count`th call that matches, come or to come. */
  async called(matches: (call: KubeCall) => boolean, count = 1): Promise<KubeCall> {
    for (;;) {
      const found = this.calls.filter(matches)[count - 1]
      if (found) return found
      await new Promise<void>(resolve => this.#waiting.add(resolve))
    }
  }

  /** Ends every watch as the server does after a time. */
  endWatches(): void {
    for (const response of this.#watches) response.end()
  }

  /** Cuts every connection. */
  reset(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  /** Resolves once no client is connected. */
  async disconnected(): Promise<void> {
    // No `once()`: it would reject where a client left by a reset.
    for (const socket of this.#sockets) await new Promise<void>(resolve => socket.on('close', () => resolve()))
  }

  /** Sends `text` on every watch, in as many pieces. */
  tell(...pieces: readonly string[]): void {
    for (const response of this.#watches) for (const piece of pieces) response.write(piece)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise<void>(resolve => this.#server.close(() => resolve()))
    this.reset()
    await closed
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const call = await readCall(request)
    if (!call) return send(response, 404, NOT_SERVED)
    this.calls.push(call)
    if (this.calls.length > MAX_CALLS) this.calls.shift()
    for (const wake of this.#waiting) wake()
    this.#waiting.clear()
    const fault = await this.fault(call)
    if (fault && !(fault.kind === 'reset' && fault.after)) return refuse(request, response, fault)
    if (call.resource === 'clustertrustbundles' && !this.trustBundleVersions.includes(call.version))
      return send(response, 404, NOT_SERVED)
    if (call.verb === 'watch') return this.#watch(call, response)
    try {
      const answer = await this.#answer(call)
      const late = fault ?? answer.fault
      if (late) return refuse(request, response, late)
      send(response, answer.code, JSON.stringify(answer.object))
    } catch (error) {
      if (!(error instanceof StatusError)) throw error
      send(response, error.code, status(error.code, error.message))
    }
  }

  async #answer(
    call: KubeCall,
  ): Promise<{ readonly code: number; readonly object: object; readonly fault?: KubeFault }> {
    if (call.verb !== 'create') return { code: 200, object: this.#read(call) }
    const object = this.objects.create(call.resource, JSON.parse(call.body), call.token)
    const fault = await this.admit(object)
    if (!fault) return { code: 201, object }
    this.objects.delete(call.resource, object.metadata.name)
    return { code: 201, object, fault }
  }

  #read({ verb, resource, name, query, body }: KubeCall): object {
    if (verb === 'list') return this.objects.list(resource, nameIn(query))
    if (verb === 'update') return this.objects.update(resource, name, JSON.parse(body))
    return verb === 'delete' ? this.objects.delete(resource, name) : this.objects.get(resource, name)
  }

  #watch({ resource, query }: KubeCall, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }).flushHeaders()
    this.#watches.add(response)
    const watching = this.objects.watch(resource, nameIn(query), query.get('resourceVersion') ?? '', event =>
      response.write(`${JSON.stringify(event)}\n`),
    )
    response.on('close', () => {
      this.#watches.delete(response)
      watching[Symbol.dispose]()
    })
    if (!watching.live) response.end()
  }
}

function refuse(request: IncomingMessage, response: ServerResponse, fault: KubeFault): void {
  switch (fault.kind) {
    case 'hang':
      return
    case 'reset':
      request.socket.destroy()
      return
    case 'status':
      send(response, fault.code, status(fault.code, fault.message), fault.headers)
      return
    case 'body':
      send(response, 200, fault.text, { 'content-type': fault.type ?? 'application/json' })
  }
}

function nameIn(query: URLSearchParams): string {
  return /^metadata\.name=(.*)$/.exec(query.get('fieldSelector') ?? '')?.[1] ?? ''
}

async function readCall(request: IncomingMessage): Promise<KubeCall | undefined> {
  const body = Buffer.concat(await request.toArray()).toString()
  const url = new URL(request.url ?? '', 'https://kube')
  const [, version = '', resource, name = ''] = API.exec(decodeURIComponent(url.pathname)) ?? []
  const verb = VERBS[request.method ?? '']
  if (resource === undefined || verb === undefined) return undefined
  const isList = verb === 'get' && name === ''
  const listVerb = url.searchParams.get('watch') === 'true' ? 'watch' : 'list'
  const bearer = request.headers.authorization?.replace('Bearer ', '') ?? ''
  return {
    verb: isList ? listVerb : verb,
    resource,
    version,
    name: name || nameIn(url.searchParams),
    token: bearer || shownName(request.socket),
    query: url.searchParams,
    body,
  }
}

/** Of the client's certificate, which stands for the user. */
function shownName(socket: Socket): string {
  return socket instanceof TLSSocket ? (socket.getPeerCertificate().subjectaltname ?? '') : ''
}

function status(code: number, message: string): string {
  return JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code })
}

function send(response: ServerResponse, code: number, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(code, { 'content-type': 'application/json', 'audit-id': randomUUID(), ...headers }).end(body)
}

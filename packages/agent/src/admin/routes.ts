/** The routes of the admin endpoint, and the answers to readers; `admin-server.ts` carries them over HTTP. */
import type { IncomingHttpHeaders } from 'node:http'
import type { RotationStatus } from '@livery/core'
import { readDescriptorLimit } from '@livery/sds-server'
import { diagnose } from '../diagnosis/diagnosis.ts'
import { type Problem, READINESS_MODES, type ReadinessMode } from '../diagnosis/problem.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { readiness } from '../observe/readiness.ts'
import { SharedWork } from '../observe/shared-work.ts'
import type { AdminSource } from './admin-source.ts'
import { type Answer, BUSY, json, text } from './answer.ts'
import { dumpPieces } from './config-dump.ts'
import { CpuShare } from './cpu-share.ts'
import { explain } from './explain.ts'
import type { Caller } from './operator.ts'
import { changeRoot, renew, setLogLevel } from './operator-actions.ts'
import { streamPieces } from './stream-list.ts'
import { composeStreams, rejectionsOf } from './stream-rows.ts'

interface RouteRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly headers: IncomingHttpHeaders
  readonly caller: Caller
}

/** The sources from which the routes of one listener answer. */
interface RouteContext {
  readonly source: AdminSource
  /** Each by its mode: one look at all identities answers everybody who waits for it. */
  readonly readiness: Readonly<Record<ReadinessMode, SharedWork<Answer>>>
  readonly metrics: SharedWork<string>
  readonly problems: SharedWork<Answer>
  /** Of looks at all identities for one name. */
  readonly searches: CpuShare
}

type Handler = (request: RouteRequest, context: RouteContext) => Answer | Promise<Answer>

export interface Route {
  readonly about: string
  readonly methods: Readonly<Partial<Record<'GET' | 'PUT', Handler>>>
}

/** What a module adds to the admin endpoint. */
export interface AddedRoutes {
  readonly routes: ReadonlyMap<string, Route>
  /** The answer at `/`; `undefined` to a client that is to have the list of routes. */
  front(request: RouteRequest): Promise<Answer> | undefined
}

export type MakeRoutes = (source: AdminSource, pageToken: string) => AddedRoutes

const HEALTH_ROUTES: ReadonlyMap<string, Route> = new Map([
  ['/healthz/live', { about: 'whether the process runs', methods: { GET: () => text(200, 'alive\n') } }],
  [
    '/healthz/ready',
    { about: 'whether it serves, and what it waits for (?mode=strict, ?mode=sockets)', methods: { GET: ready } },
  ],
  ['/metrics', { about: 'Prometheus metrics', methods: { GET: metrics } }],
])

/** The routes of a listener: all of them, or those that may be open to the network. */
export const ROUTES: Readonly<Record<'admin' | 'health', ReadonlyMap<string, Route>>> = {
  admin: new Map([
    ...HEALTH_ROUTES,
    [
      '/problems',
      {
        about: 'what is wrong, why, and what to do about it',
        methods: { GET: async (_, { problems }) => (await problems.result()) ?? BUSY },
      },
    ],
    ['/config_dump', { about: 'identities, certificates, configuration', methods: { GET: configDump } }],
    [
      '/explain',
      {
        about: 'what happened to a name (?name=spiffe://…)',
        methods: { GET: ({ query }, { source, searches }) => explain(source, query, searches) },
      },
    ],
    [
      '/streams',
      { about: 'streams, their callers and versions of names (?name=spiffe://…)', methods: { GET: streams } },
    ],
    [
      '/renew',
      {
        about: 'renews a certificate now (PUT ?name=spiffe://…, the operator only)',
        methods: { PUT: ({ query, caller }, { source, searches }) => renew(source, query, caller, searches) },
      },
    ],
    [
      '/trust',
      {
        about: 'root rotations (PUT ?action=hold|resume|drop&root=FINGERPRINT, the operator only)',
        methods: { GET: rotations, PUT: ({ query, caller }, { source }) => changeRoot(source, query, caller) },
      },
    ],
    [
      '/logging',
      {
        about: 'the log level of each scope (PUT ?level=debug changes all, ?scope=sds&level=debug one)',
        methods: { GET: logLevel, PUT: ({ query, caller }, { source }) => setLogLevel(source, query, caller) },
      },
    ],
  ]),
  health: HEALTH_ROUTES,
}

/** More than come in while readiness is looked at: a probe that is sent away would take the agent for unready. */
const MAX_WAITING_PROBES = 512
const MAX_WAITING_SCRAPES = 128

/** Answers the requests of one listener. */
export class Router {
  readonly #routes: ReadonlyMap<string, Route>
  readonly #added: AddedRoutes | undefined
  readonly #context: RouteContext

  constructor(routes: ReadonlyMap<string, Route>, source: AdminSource, added: AddedRoutes | undefined) {
    this.#routes = added ? new Map([...routes, ...added.routes]) : routes
    this.#added = added
    const ready = (mode: ReadinessMode) =>
      new SharedWork(turns => lookAtReadiness(source, mode, turns), MAX_WAITING_PROBES)
    this.#context = {
      source,
      readiness: { default: ready('default'), strict: ready('strict'), sockets: ready('sockets') },
      metrics: new SharedWork(turns => source.metrics.text(turns), MAX_WAITING_SCRAPES),
      problems: new SharedWork(turns => lookForProblems(source, turns), MAX_WAITING_PROBES),
      searches: new CpuShare(),
    }
  }

  /** Answers a request for a path, whatever it is. */
  async answer(request: RouteRequest): Promise<Answer> {
    const { path } = request
    if (path === '/') return await this.#front(request)
    const route = this.#routes.get(path)
    if (!route) return text(404, nothingAt(path))
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const handler = method === 'GET' || method === 'PUT' ? route.methods[method] : undefined
    if (!handler) return text(405, `This takes ${Object.keys(route.methods).join(' and ')} only.\n`)
    return await handler(request, this.#context)
  }

  async #front(request: RouteRequest): Promise<Answer> {
    const front = await this.#added?.front(request)
    return front ?? text(200, index(this.#routes, this.#context.source), this.#added ? { vary: 'accept' } : {})
  }
}

function nothingAt(path: string): string {
  const isProbe = /^\/(?:ready|readyz|health|healthz|livez?|readiness)\/?$/.test(path)
  const ready = isProbe ? ' /healthz/ready says whether the agent serves.' : ''
  return `Nothing is at ${JSON.stringify(path.slice(0, 100))}.${ready} See / for what there is.\n`
}

function index(routes: ReadonlyMap<string, Route>, { version }: AdminSource): string {
  const lines = [...routes].map(([path, { about }]) => `${path.padEnd(16)}${about}`)
  return [`livery ${version}`, '', ...lines, ''].join('\n')
}

async function ready({ query }: RouteRequest, { readiness }: RouteContext): Promise<Answer> {
  const mode = readinessMode(query)
  if (!mode) return text(400, `The mode is one of ${READINESS_MODES.join(', ')}: /healthz/ready?mode=strict\n`)
  return (await readiness[mode].result()) ?? BUSY
}

async function lookAtReadiness(source: AdminSource, mode: ReadinessMode, turns: LoopTurns): Promise<Answer> {
  const diagnosis = await diagnose(source, turns)
  const { ready, text: body } = readiness(diagnosis.serving(), mode, source.clock.now())
  return text(ready ? 200 : 503, body)
}

/** The answer of `/problems`. */
export interface ProblemList {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The worst first. */
  readonly problems: readonly Problem[]
  /** How many files the agent may open; absent where that is not known. */
  readonly openFiles?: number
}

async function lookForProblems(source: AdminSource, turns: LoopTurns): Promise<Answer> {
  const streams = await composeStreams(source, turns)
  const problems = (await diagnose(source, turns)).all(rejectionsOf(streams))
  const openFiles = readDescriptorLimit()
  const list: ProblemList = { now: source.clock.now(), problems, ...(openFiles !== undefined && { openFiles }) }
  return json(200, list)
}

/** `?strict` is short for `?mode=strict`; `undefined` for a mode that there is not. */
function readinessMode(query: URLSearchParams): ReadinessMode | undefined {
  const wanted = query.get('mode')
  if (wanted !== null) return READINESS_MODES.find(mode => mode === wanted)
  return query.has('strict') && query.get('strict') !== 'false' ? 'strict' : 'default'
}

async function metrics(_: RouteRequest, { source, metrics }: RouteContext): Promise<Answer> {
  const body = await metrics.result()
  return body === undefined ? BUSY : { status: 200, contentType: source.metrics.contentType, body }
}

function configDump(_: RouteRequest, { source }: RouteContext): Answer {
  return { status: 200, contentType: 'application/json', body: dumpPieces(source) }
}

function streams({ query }: RouteRequest, { source }: RouteContext): Answer {
  const server = source.sds?.()
  if (!server) return text(503, 'No socket serves yet. Ask again in a few seconds.\n', { 'retry-after': '2' })
  const options = {
    now: source.clock.now(),
    only: query.get('name') ?? undefined,
    podOf: (subject: string) => source.podOf?.(subject),
  }
  return { status: 200, contentType: 'application/json', body: streamPieces(server, options) }
}

/** The answer of `/trust`. */
export interface TrustStatus {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly trustDomains: readonly RotationStatus[]
}

function rotations(_: RouteRequest, { source }: RouteContext): Answer {
  const status: TrustStatus = { now: source.clock.now(), trustDomains: source.rotations() }
  return json(200, status)
}

function logLevel(_: RouteRequest, { source }: RouteContext): Answer {
  const levels = Object.entries(source.log.levels())
  return text(200, levels.map(([scope, level]) => `${scope.padEnd(12)}${level}\n`).join(''))
}

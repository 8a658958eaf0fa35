/** The routes of the admin endpoint, and the answers to readers; `admin-server.ts` carries them over HTTP. */
import type { IncomingHttpHeaders } from 'node:http'
import type { RotationStatus } from '@livery/core'
import { nativeCertificateVerifier } from '@livery/native-keygen'
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

type Handler = (request: RouteRequest) => Answer | Promise<Answer>

interface Route {
  readonly about: string
  readonly GET?: Handler
  readonly PUT?: Handler
}

/** Keyed by path, in the order of the list at `/`. */
export type Routes = Readonly<Record<string, Route>>

/** Routes and the front page that a module adds to the admin endpoint. */
export interface AddedRoutes {
  readonly routes: Routes
  /** The answer at `/`; `undefined` for a client that gets the list of routes. */
  front(request: RouteRequest): Promise<Answer> | undefined
}

/** `pageToken` identifies requests of the page. */
export type MakeRoutes = (source: AdminSource, pageToken: string) => AddedRoutes

/** More than arrive during one look at readiness: a refused probe would report the agent as unready. */
const MAX_WAITING_PROBES = 512
const MAX_WAITING_SCRAPES = 128

/** The routes that may be open to the network. One look at all identities answers every caller that waits for it. */
function healthRoutes(source: AdminSource): Routes {
  const look = (mode: ReadinessMode) =>
    new SharedWork(turns => lookAtReadiness(source, mode, turns), MAX_WAITING_PROBES)
  const looks = { default: look('default'), strict: look('strict'), sockets: look('sockets') }
  const scrapes = new SharedWork(turns => source.metrics.text(turns), MAX_WAITING_SCRAPES)
  return {
    '/healthz/live': { about: 'whether the process runs', GET: () => text(200, 'alive\n') },
    '/healthz/ready': {
      about: 'whether it serves, and what it waits for (?mode=strict, ?mode=sockets)',
      async GET({ query }) {
        const mode = readinessMode(query)
        if (!mode) return text(400, `The mode is one of ${READINESS_MODES.join(', ')}: /healthz/ready?mode=strict\n`)
        return (await looks[mode].result()) ?? BUSY
      },
    },
    '/metrics': {
      about: 'Prometheus metrics',
      async GET() {
        const body = await scrapes.result()
        return body === undefined ? BUSY : { status: 200, contentType: source.metrics.contentType, body }
      },
    },
  }
}

function adminRoutes(source: AdminSource): Routes {
  const problems = new SharedWork(turns => lookForProblems(source, turns), MAX_WAITING_PROBES)
  // Limits the searches through all identities for one name.
  const searches = new CpuShare()
  return {
    ...healthRoutes(source),
    '/problems': {
      about: 'what is wrong, why, and what to do about it',
      GET: async () => (await problems.result()) ?? BUSY,
    },
    '/config_dump': {
      about: 'identities, certificates, configuration',
      GET: () => ({ status: 200, contentType: 'application/json', body: dumpPieces(source) }),
    },
    '/explain': {
      about: 'what happened to a name (?name=spiffe://…)',
      GET: ({ query }) => explain(source, query, searches),
    },
    '/streams': {
      about: 'streams, their callers and versions of names (?name=spiffe://…)',
      GET: ({ query }) => streams(source, query),
    },
    '/renew': {
      about: 'renews a certificate now (PUT ?name=spiffe://…, the operator only)',
      PUT: ({ query, caller }) => renew(source, query, caller, searches),
    },
    '/trust': {
      about: 'root rotations (PUT ?action=hold|resume|drop&root=FINGERPRINT, the operator only)',
      GET: () => json(200, { now: source.clock.now(), trustDomains: source.rotations() } satisfies TrustStatus),
      PUT: ({ query, caller }) => changeRoot(source, query, caller),
    },
    '/logging': {
      about: 'the log level of each scope (PUT ?level=debug changes all, ?scope=sds&level=debug one)',
      GET: () => logLevel(source),
      PUT: ({ query, caller }) => setLogLevel(source, query, caller),
    },
  }
}

/** Answers the requests of one listener. */
export class Router {
  readonly #routes: ReadonlyMap<string, Route>
  readonly #added: AddedRoutes | undefined
  readonly #version: string

  constructor(routes: 'admin' | 'health', source: AdminSource, added: AddedRoutes | undefined) {
    const own = routes === 'admin' ? adminRoutes(source) : healthRoutes(source)
    this.#routes = new Map(Object.entries({ ...own, ...added?.routes }))
    this.#added = added
    this.#version = source.version
  }

  /** Answers a request for any path. */
  async answer(request: RouteRequest): Promise<Answer> {
    const { path } = request
    if (path === '/') return (await this.#added?.front(request)) ?? this.#index()
    const route = this.#routes.get(path)
    if (!route) return text(404, nothingAt(path))
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const handler = method === 'GET' || method === 'PUT' ? route[method] : undefined
    if (handler) return await handler(request)
    const taken = (['GET', 'PUT'] as const).filter(each => route[each])
    return text(405, `This takes ${taken.join(' and ')} only.\n`)
  }

  #index(): Answer {
    const lines = [...this.#routes].map(([path, { about }]) => `${path.padEnd(16)}${about}`)
    return text(200, [`livery ${this.#version}`, '', ...lines, ''].join('\n'), this.#added ? { vary: 'accept' } : {})
  }
}

function nothingAt(path: string): string {
  const isProbe = /^\/(?:ready|readyz|health|healthz|livez?|readiness)\/?$/.test(path)
  const ready = isProbe ? ' /healthz/ready says whether the agent serves.' : ''
  return `Nothing is at ${JSON.stringify(path.slice(0, 100))}.${ready} See / for what there is.\n`
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
  /** Limit of the agent's open files; absent where that is not known. */
  readonly openFiles?: number
  /** Whether the agent has loaded the native addon. */
  readonly hasAddon?: boolean
}

async function lookForProblems(source: AdminSource, turns: LoopTurns): Promise<Answer> {
  const streams = await composeStreams(source, turns)
  const problems = (await diagnose(source, turns)).all(rejectionsOf(streams))
  const openFiles = readDescriptorLimit()
  const list = { now: source.clock.now(), problems, hasAddon: nativeCertificateVerifier !== undefined }
  return json(200, { ...list, ...(openFiles !== undefined && { openFiles }) } satisfies ProblemList)
}

/** `?strict` is short for `?mode=strict`; `undefined` for an unknown mode. */
function readinessMode(query: URLSearchParams): ReadinessMode | undefined {
  const wanted = query.get('mode')
  if (wanted !== null) return READINESS_MODES.find(mode => mode === wanted)
  return query.has('strict') && query.get('strict') !== 'false' ? 'strict' : 'default'
}

function streams(source: AdminSource, query: URLSearchParams): Answer {
  const server = source.sds?.()
  if (!server) return text(503, 'No socket serves yet. Ask again in a few seconds.\n', { 'retry-after': '2' })
  const only = query.get('name') ?? undefined
  const body = streamPieces(server, source.clock.now(), only, subject => source.podOf?.(subject))
  return { status: 200, contentType: 'application/json', body }
}

/** The answer of `/trust`. */
export interface TrustStatus {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly trustDomains: readonly RotationStatus[]
}

function logLevel(source: AdminSource): Answer {
  const levels = Object.entries(source.log.levels())
  return text(200, levels.map(([scope, level]) => `${scope.padEnd(12)}${level}\n`).join(''))
}

/** The routes of the admin endpoint. Every answer is made here; `admin-server.ts` carries it over HTTP. */
import {
  ALL_BUNDLES,
  type BundleEntry,
  type Clock,
  type FileSecretEntry,
  type IdentityEntry,
  type RootAction,
  type RootActionResult,
  type RotationStatus,
} from '@livery/core'
import type { SocketFileEvent, WellKnownNames } from '@livery/sds-server'
import type { LedgerEntry } from '../observe/ledger.ts'
import { describeEvent } from '../observe/ledger-text.ts'
import type { AdminEvent } from '../observe/log-events.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { LOG_LEVELS, type LogLevel } from '../schema/log-level.ts'
import { nearest } from '../schema/schema-parts.ts'
import { type Answer, BUSY, json, text } from './answer.ts'
import { type DumpedState, dumpedState, dumpPieces } from './config-dump.ts'
import { authorityOf, type Caller } from './operator.ts'
import {
  type Phase,
  type PodsStatus,
  READINESS_MODES,
  type ReadinessMode,
  readiness,
  readinessText,
  type SocketStatus,
} from './readiness.ts'
import { SharedWork } from './shared-work.ts'
import { type StreamSource, streamPieces } from './stream-list.ts'

/** The running agent, as the admin endpoint sees it. */
export interface AdminSource {
  readonly version: string
  readonly trustDomain: string
  readonly names: WellKnownNames
  /** Names that stand for files. Default: none. */
  readonly fileNames?: ReadonlyMap<string, string>
  readonly clock: Clock
  /** The effective configuration, without secrets. */
  config(): object
  phase(): Phase
  sockets(): readonly SocketStatus[]
  /** Default: it does not serve yet. */
  sds?(): StreamSource | undefined
  /** Default: the configuration has no section `kubernetes`. */
  pods?(): PodsStatus | undefined
  entries(): readonly IdentityEntry[]
  entry(identity: string): IdentityEntry | undefined
  bundles(): readonly BundleEntry[]
  files(): readonly FileSecretEntry[]
  rotations(): readonly RotationStatus[]
  changeRoot(action: RootAction, fingerprint: string): RootActionResult
  explain(name: string): readonly LedgerEntry[]
  /** Renews the certificate of an identity now; `false` if it is not held. */
  renew(identity: string): boolean
  readonly metrics: { readonly contentType: string; text(turns: LoopTurns): Promise<string> }
  readonly log: { level: string }
  /** A caller with this token is allowed every log level. Default: only the owner of the UNIX socket is. */
  readonly tokenFile?: string | undefined
  /** Reports what somebody did, or was refused, or what became of the endpoint's socket, whatever the log level is. */
  security?(event: AdminEvent | SocketFileEvent['kind'], fields: object, message: string): void
}

/** The answer of `/explain`. */
export interface Explanation {
  readonly name: string
  /** Milliseconds since the epoch, to compute ages from. */
  readonly now: number
  /** As in `/config_dump` of an identity; `2 roots` of a trust bundle. */
  readonly state: string | undefined
  /** Oldest first; `text` is the event in plain words. */
  readonly entries: readonly (LedgerEntry & { readonly text: string })[]
}

interface RouteRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly caller: Caller
}

/** The sources from which the routes of one listener answer. */
interface RouteContext {
  readonly source: AdminSource
  /** Each by its mode: one look at all identities answers everybody who waits for it. */
  readonly readiness: Readonly<Record<ReadinessMode, SharedWork<Answer>>>
  readonly metrics: SharedWork<string>
}

type Handler = (context: RouteContext, query: URLSearchParams, caller: Caller) => Answer | Promise<Answer>

interface Route {
  readonly about: string
  readonly methods: Readonly<Partial<Record<'GET' | 'PUT', Handler>>>
}

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
    ['/config_dump', { about: 'identities, certificates, configuration', methods: { GET: configDump } }],
    ['/explain', { about: 'what happened to a name (?name=spiffe://…)', methods: { GET: explain } }],
    [
      '/streams',
      { about: 'streams, their callers and versions of names (?name=spiffe://…)', methods: { GET: streams } },
    ],
    [
      '/renew',
      { about: 'renews a certificate now (PUT ?name=spiffe://…, the operator only)', methods: { PUT: renew } },
    ],
    [
      '/trust',
      {
        about: 'root rotations (PUT ?action=hold|resume|drop&root=FINGERPRINT, the operator only)',
        methods: { GET: rotations, PUT: changeRoot },
      },
    ],
    [
      '/logging',
      { about: 'the log level (PUT ?level=debug changes it)', methods: { GET: logLevel, PUT: setLogLevel } },
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
  readonly #context: RouteContext

  constructor(routes: ReadonlyMap<string, Route>, source: AdminSource) {
    this.#routes = routes
    const ready = (mode: ReadinessMode) => new SharedWork(() => lookAtReadiness(source, mode), MAX_WAITING_PROBES)
    this.#context = {
      source,
      readiness: { default: ready('default'), strict: ready('strict'), sockets: ready('sockets') },
      metrics: new SharedWork(turns => source.metrics.text(turns), MAX_WAITING_SCRAPES),
    }
  }

  /** Answers a request for `path`, whatever it is. */
  async answer({ path, query, caller, ...request }: RouteRequest): Promise<Answer> {
    if (path === '/') return text(200, index(this.#routes, this.#context.source))
    const route = this.#routes.get(path)
    if (!route) return text(404, `Nothing is at ${JSON.stringify(path.slice(0, 100))}. See / for what there is.\n`)
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const handler = method === 'GET' || method === 'PUT' ? route.methods[method] : undefined
    if (!handler) return text(405, `This takes ${Object.keys(route.methods).join(' and ')} only.\n`)
    return await handler(this.#context, query, caller)
  }
}

function index(routes: ReadonlyMap<string, Route>, { version }: AdminSource): string {
  const lines = [...routes].map(([path, { about }]) => `${path.padEnd(16)}${about}`)
  return [`livery ${version}`, '', ...lines, ''].join('\n')
}

async function ready({ readiness }: RouteContext, query: URLSearchParams): Promise<Answer> {
  const mode = readinessMode(query)
  if (!mode) return text(400, `The mode is one of ${READINESS_MODES.join(', ')}: /healthz/ready?mode=strict\n`)
  return (await readiness[mode].result()) ?? BUSY
}

function lookAtReadiness(source: AdminSource, mode: ReadinessMode): Answer {
  const result = readiness({
    phase: source.phase(),
    sockets: source.sockets(),
    pods: source.pods?.(),
    entries: source.entries(),
    now: source.clock.now(),
    mode,
  })
  return text(result.ready ? 200 : 503, readinessText(result))
}

/** `?strict` is short for `?mode=strict`; `undefined` for a mode that there is not. */
function readinessMode(query: URLSearchParams): ReadinessMode | undefined {
  const wanted = query.get('mode')
  if (wanted !== null) return READINESS_MODES.find(mode => mode === wanted)
  return query.has('strict') && query.get('strict') !== 'false' ? 'strict' : 'default'
}

async function metrics({ source, metrics }: RouteContext): Promise<Answer> {
  const body = await metrics.result()
  return body === undefined ? BUSY : { status: 200, contentType: source.metrics.contentType, body }
}

function configDump({ source }: RouteContext): Answer {
  return { status: 200, contentType: 'application/json', body: dumpPieces(source) }
}

function streams({ source }: RouteContext, query: URLSearchParams): Answer {
  const server = source.sds?.()
  if (!server) return text(503, 'No socket serves yet. Ask again in a few seconds.\n', { 'retry-after': '2' })
  const options = { now: source.clock.now(), only: query.get('name') ?? undefined }
  return { status: 200, contentType: 'application/json', body: streamPieces(server, options) }
}

function explain({ source }: RouteContext, query: URLSearchParams): Answer {
  const asked = query.get('name')
  if (!asked) return text(400, 'Add the name to explain: /explain?name=spiffe://…\n')
  const name = ledgerNameOf(source, asked)
  const entries = source.explain(name)
  const state = identityState(source.entry(name), entries) ?? bundleState(source, name)
  if (entries.length === 0 && state === undefined) return text(404, unknownName(source, asked))
  const explanation: Explanation = {
    name,
    now: source.clock.now(),
    state,
    entries: entries.map(entry => ({ ...entry, text: describeEvent(entry.event) })),
  }
  return json(200, explanation)
}

/** Of the names that mean the same to every caller. A refused one has a ledger under its own name. */
function ledgerNameOf(source: AdminSource, asked: string): string {
  const { names, trustDomain } = source
  if (asked === names.all) return ALL_BUNDLES
  if (asked === names.root) return `spiffe://${trustDomain}`
  const files = source.fileNames?.get(asked)
  return files === undefined || source.explain(files).length === 0 ? asked : files
}

/** `Forgotten`, where the ledger says that it was held once. */
function identityState(entry: IdentityEntry | undefined, entries: readonly LedgerEntry[]): DumpedState | undefined {
  if (entry) return dumpedState(entry.state)
  const wasForgotten = entries.some(({ event }) => event.kind === 'withdrawn' && event.reason !== 'expired')
  return wasForgotten ? dumpedState('forgotten') : undefined
}

/** `2 roots`, where the name is a trust bundle. */
function bundleState(source: AdminSource, name: string): string | undefined {
  const bundle = source.bundles().find(each => each.identity === undefined && `spiffe://${each.trustDomain}` === name)
  return bundle && bundle.roots.length > 0
    ? `${bundle.roots.length} ${bundle.roots.length === 1 ? 'root' : 'roots'}`
    : undefined
}

function unknownName({ names, trustDomain }: AdminSource, name: string): string {
  if (name === names.root || name === `spiffe://${trustDomain}`)
    return `There is no trust bundle of ${trustDomain} yet: the CA has given no roots. livery certs shows why, where the CA fails.\n`

  if (name === names.default) {
    return `${JSON.stringify(name)} is another identity on each socket. Ask for the SPIFFE ID: livery certs lists them.\n`
  }
  return `Nobody has asked for ${JSON.stringify(name.slice(0, 200))} and it is not configured. livery certs lists the identities, spiffe://${trustDomain} is the trust bundle.\n`
}

/** Each costs the CA a request, so that it is not for everybody who gets here. */
async function renew({ source }: RouteContext, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const { tokenFile } = source
  const name = query.get('name') ?? ''
  const authority = await authorityOf(caller, tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, caller, authority.refusal, {
      event: 'renewal-refused',
      refused: 'a renewal by hand was refused',
      cause: 'A renewal costs the CA a request',
    })
  if (!source.renew(name)) return text(404, unknownName(source, name))
  source.security?.(
    'renewal-requested',
    { resource: name, by: authority.by },
    `${name} is renewed now, as ${authority.by} wishes`,
  )
  return text(202, `${name} is renewed now. livery explain ${name} shows what becomes of it.\n`)
}

/** The answer of `/trust`. */
export interface TrustStatus {
  /** Milliseconds since the epoch. */
  readonly now: number
  readonly trustDomains: readonly RotationStatus[]
}

function rotations({ source }: RouteContext): Answer {
  const status: TrustStatus = { now: source.clock.now(), trustDomains: source.rotations() }
  return json(200, status)
}

const ROOT_ACTIONS: readonly RootAction[] = ['hold', 'resume', 'drop']
/** With the colons that openssl prints. */
const MAX_FINGERPRINT = 95

async function changeRoot({ source }: RouteContext, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const action = ROOT_ACTIONS.find(each => each === query.get('action'))
  if (!action)
    return text(400, `The action is one of ${ROOT_ACTIONS.join(', ')}: /trust?action=hold&root=FINGERPRINT\n`)
  const root = (query.get('root') ?? '').slice(0, MAX_FINGERPRINT)
  const authority = await authorityOf(caller, source.tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, caller, authority.refusal, {
      event: 'root-change-refused',
      fields: { action, root },
      refused: 'not done',
      cause: `To ${action} a root changes who is trusted`,
    })
  const result = source.changeRoot(action, root)
  if ('refused' in result) return text(409, `${result.refused}\n`)
  const { fingerprint, phase } = result.done
  source.security?.(
    'root-change',
    { action, root: fingerprint, by: authority.by },
    `${action} of the root ${fingerprint}, by ${authority.by}`,
  )
  return text(200, `The root ${fingerprint} is ${phase} now. livery trust status shows what becomes of it.\n`)
}

function logLevel({ source }: RouteContext): Answer {
  return text(200, `${source.log.level}\n`)
}

/** The levels that every caller is allowed to set: no warning is lost at them, and at debug the log grows within its flood limit. */
const OPEN_LEVELS: ReadonlySet<LogLevel> = new Set(['trace', 'debug', 'info', 'warn'])

async function setLogLevel({ source }: RouteContext, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const { log, tokenFile } = source
  const wanted = query.get('level') ?? ''
  const level: LogLevel | undefined = LOG_LEVELS.find(candidate => candidate === wanted)
  if (!level) {
    const near = nearest(wanted, LOG_LEVELS)
    const hint = near ? ` Did you mean ${near}?` : ''
    return text(400, `${JSON.stringify(wanted.slice(0, 100))} is none of the levels ${LOG_LEVELS.join(', ')}.${hint}\n`)
  }
  const needsOperator = !OPEN_LEVELS.has(level)
  const authority = await authorityOf(caller, tokenFile)
  if (needsOperator && 'refusal' in authority)
    return notTheOperator(source, caller, authority.refusal, {
      event: 'log-level-refused',
      fields: { to: level, from: log.level },
      refused: `not set to ${level}`,
      cause: `The level ${level} would hide warnings`,
    })
  const by = 'by' in authority ? authority.by : 'a caller that nobody knows'
  source.security?.(
    'log-level-changed',
    { to: level, from: log.level, by },
    `the log level is ${level} now, set by ${by}`,
  )
  log.level = level
  return text(200, `${level}\n`)
}

interface OperatorOnly {
  /** Of the security log, with its fields and its message. */
  readonly event: AdminEvent
  readonly fields?: object
  readonly refused: string
  /** Why not everybody is allowed to do it. */
  readonly cause: string
}

/** Reports that a caller is not the operator, with the reason, and answers it. */
function notTheOperator(
  source: AdminSource,
  { credentials }: Caller,
  reason: string,
  { event, fields, refused, cause }: OperatorOnly,
): Answer {
  source.security?.(event, { ...fields, uid: credentials?.uid }, `${refused}: ${reason}`)
  return text(
    403,
    `${cause}, and the request is not the operator's: ${reason}. Make admin.address a UNIX socket and ask as root or the agent's user, or set admin.tokenFile: the commands of livery send what is in it, where they can read it.\n`,
    { 'www-authenticate': 'Bearer' },
  )
}

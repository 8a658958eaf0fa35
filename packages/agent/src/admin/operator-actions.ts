/** Changes by a caller: renewals, roots, the log level; each is reported, done or refused. */
import type { RootAction } from '@livery/core'
import type { AdminEvent } from '../observe/agent-event.ts'
import { Fault, faultText } from '../schema/fault.ts'
import { formatLogLevels, type LogLevel, type LogLevels, parseLogLevels } from '../schema/log-level.ts'
import type { AdminSource } from './admin-source.ts'
import { type Answer, text } from './answer.ts'
import type { CpuShare } from './cpu-share.ts'
import { unknownName } from './explain.ts'
import { type Authority, authorityOf, type Caller } from './operator.ts'

/** A renewal costs the CA a request, so only the operator may ask for one. */
export async function renew(
  source: AdminSource,
  query: URLSearchParams,
  caller: Caller,
  searches: CpuShare,
): Promise<Answer> {
  const { tokenFile } = source
  const name = query.get('name') ?? ''
  const authority = await authorityOf(caller, tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, authority, {
      event: { kind: 'renewal-refused', ...refusal(caller, authority) },
      refused: 'Not renewed',
      cause: 'a renewal costs the CA a request',
    })
  if (!source.renew(name)) return text(404, unknownName(source, name, searches))
  source.security?.({ kind: 'renewal-requested', resource: name, by: authority.by })
  return text(202, `Asking the CA for ${name} now. livery explain ${name} shows the result.\n`)
}

const ROOT_ACTIONS: readonly RootAction[] = ['hold', 'resume', 'drop']
/** SHA-256 with the colons that openssl prints. */
const MAX_FINGERPRINT = 95

export async function changeRoot(source: AdminSource, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const action = ROOT_ACTIONS.find(each => each === query.get('action'))
  if (!action)
    return text(400, `The action is one of ${ROOT_ACTIONS.join(', ')}: /trust?action=hold&root=FINGERPRINT\n`)
  const root = (query.get('root') ?? '').slice(0, MAX_FINGERPRINT)
  const authority = await authorityOf(caller, source.tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, authority, {
      event: { kind: 'root-change-refused', action, root, ...refusal(caller, authority) },
      refused: 'Not done',
      cause: `to ${action} a root changes who is trusted`,
    })
  const result = source.changeRoot(action, root)
  if ('refused' in result) return text(409, `${result.refused}\n`)
  const { fingerprint, phase } = result.done
  source.security?.({ kind: 'root-change', action, root: fingerprint, by: authority.by })
  return text(200, `The root ${fingerprint} is ${phase} now. livery trust status shows its phase.\n`)
}

/** The levels that every caller may set: they lose no warning, and at debug the log grows within its flood limit. */
const OPEN_LEVELS: ReadonlySet<LogLevel> = new Set(['trace', 'debug', 'info', 'warn'])

export async function setLogLevel(source: AdminSource, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const { log, tokenFile } = source
  const wanted = wantedLevels(query)
  if ('status' in wanted) return wanted
  const before = log.levels()
  const from = formatLogLevels(before)
  const to = formatLogLevels({ ...before, ...wanted })
  const hiding = Object.values(wanted).find(level => !OPEN_LEVELS.has(level))
  const authority = await authorityOf(caller, tokenFile)
  if (hiding && 'refusal' in authority)
    return notTheOperator(source, authority, {
      event: { kind: 'log-level-refused', to, from, ...refusal(caller, authority) },
      refused: `Not set to ${to}`,
      cause: `the level ${hiding} would hide warnings`,
    })
  const by = 'by' in authority ? authority.by : 'an unknown caller'
  source.security?.({ kind: 'log-level-changed', to, from, by })
  log.change(wanted)
  return text(200, `${to}\n`)
}

/** `?level=debug`, `?level=info,sds:debug`, or `?scope=sds&level=debug`. */
function wantedLevels(query: URLSearchParams): Partial<LogLevels> | Answer {
  const level = query.get('level') ?? ''
  const scope = query.get('scope')
  if (scope !== null && /[:,]/.test(scope + level))
    return text(400, 'With scope=SCOPE the level is one level: /logging?scope=sds&level=debug\n')
  const wanted = scope === null ? level : `${scope}:${level}`
  const levels = parseLogLevels(wanted)
  return levels instanceof Fault ? text(400, `${JSON.stringify(wanted.slice(0, 100))} ${faultText(levels)}\n`) : levels
}

type Refused = Extract<Authority, { readonly refusal: string }>

function refusal({ credentials }: Caller, { refusal: message }: Refused) {
  return { uid: credentials?.uid, message }
}

interface OperatorOnly {
  readonly event: AdminEvent
  readonly refused: string
  /** Why only the operator may do it. */
  readonly cause: string
}

/** Reports that a caller is not the operator, and answers it. */
function notTheOperator(
  source: AdminSource,
  { refusal, remedy }: Refused,
  { event, refused, cause }: OperatorOnly,
): Answer {
  source.security?.(event)
  const reason = `Only the operator may do this, because ${cause}. The agent does not know this caller as the operator: ${refusal}.`
  return text(403, `${refused}. ${reason} ${remedy}.\n`, { 'www-authenticate': 'Bearer' })
}

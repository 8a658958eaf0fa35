/** What a caller can change: renewals, roots, the log level; each is reported, done or refused. */
import type { RootAction } from '@livery/core'
import type { AdminEvent } from '../observe/log-events.ts'
import { LOG_LEVELS, type LogLevel } from '../schema/log-level.ts'
import { nearest } from '../schema/schema-parts.ts'
import type { AdminSource } from './admin-source.ts'
import { type Answer, text } from './answer.ts'
import { unknownName } from './explain.ts'
import { type Authority, authorityOf, type Caller } from './operator.ts'

/** Each costs the CA a request, so that it is not for everybody who gets here. */
export async function renew(source: AdminSource, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const { tokenFile } = source
  const name = query.get('name') ?? ''
  const authority = await authorityOf(caller, tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, caller, authority, {
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

const ROOT_ACTIONS: readonly RootAction[] = ['hold', 'resume', 'drop']
/** With the colons that openssl prints. */
const MAX_FINGERPRINT = 95

export async function changeRoot(source: AdminSource, query: URLSearchParams, caller: Caller): Promise<Answer> {
  const action = ROOT_ACTIONS.find(each => each === query.get('action'))
  if (!action)
    return text(400, `The action is one of ${ROOT_ACTIONS.join(', ')}: /trust?action=hold&root=FINGERPRINT\n`)
  const root = (query.get('root') ?? '').slice(0, MAX_FINGERPRINT)
  const authority = await authorityOf(caller, source.tokenFile)
  if ('refusal' in authority)
    return notTheOperator(source, caller, authority, {
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

/** The levels that every caller is allowed to set: no warning is lost at them, and at debug the log grows within its flood limit. */
const OPEN_LEVELS: ReadonlySet<LogLevel> = new Set(['trace', 'debug', 'info', 'warn'])

export async function setLogLevel(source: AdminSource, query: URLSearchParams, caller: Caller): Promise<Answer> {
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
    return notTheOperator(source, caller, authority, {
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
  { refusal, remedy }: Extract<Authority, { readonly refusal: string }>,
  { event, fields, refused, cause }: OperatorOnly,
): Answer {
  source.security?.(event, { ...fields, uid: credentials?.uid }, `${refused}: ${refusal}`)
  return text(403, `${cause}, and the request is not the operator's: ${refusal}. ${remedy}.\n`, {
    'www-authenticate': 'Bearer',
  })
}

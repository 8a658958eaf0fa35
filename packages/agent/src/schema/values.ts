/** The kinds of values in the configuration. */
import { existsSync, readFileSync } from 'node:fs'
import { isIPv6 } from 'node:net'
import { resolve } from 'node:path'
import { spiffePatternProblem } from '@livery/core'
import { isFileName, parseFileName, parseFilePattern } from '@livery/core/file-secrets'
import {
  dnsNameProblem,
  isSpiffeId,
  KEY_TYPES,
  type KeyType,
  type SpiffeId,
  spiffeIdProblem,
  trustDomainProblem,
} from '@livery/core/plugin'
import { parseDuration } from './duration.ts'
import { Fault } from './fault.ts'
import { DEFAULT_LEVEL, everyScope, LOG_LEVELS, type LogLevels, parseLogLevels } from './log-level.ts'
import { kindOf, type MakeAbsolute, nearest, type Schema, scalar, text, withPath } from './schema-parts.ts'

/** A TCP address to listen on or to ask. */
export interface HostPort {
  /** Name or address; IPv6 without brackets. */
  readonly host: string
  readonly port: number
}

/** The path of a UNIX socket, written `unix:/run/livery/admin.sock`. */
export interface SocketPath {
  readonly path: string
  readonly host?: undefined
  readonly port?: undefined
}

export type ListenAddress = HostPort | SocketPath

export const UNIX_PREFIX = 'unix:'

/** Milliseconds, within bounds in the configuration's own form. */
export function duration(bounds: { readonly min: string; readonly max: string }): Schema<number> {
  const remedy = 'Write a number with a unit: 500ms, 5s, 30m, 24h or 90d'
  const min = parseDuration(bounds.min) ?? 0
  const max = parseDuration(bounds.max) ?? Number.POSITIVE_INFINITY
  return scalar(`duration, \`${bounds.min}\` to \`${bounds.max}\``, input => {
    const ms = typeof input === 'string' ? parseDuration(input) : undefined
    if (ms === undefined) return new Fault('is not a duration', remedy)
    if (ms < min) return new Fault(`is shorter than ${bounds.min}`, `Write ${bounds.min} or more`)
    if (ms > max) return new Fault(`is longer than ${bounds.max}`, `Write ${bounds.max} or less`)
    return ms
  })
}

export function numberBetween(min: number, max: number, meaning: string): Schema<number> {
  return scalar(`number, ${min} to ${max}`, input => {
    const fits = typeof input === 'number' && input >= min && input <= max
    return fits ? input : new Fault(`is not a number from ${min} to ${max}`, meaning)
  })
}

/** `unit`: the counted thing, where the key does not name it. */
export function wholeNumber(min: number, max: number, unit = 'whole number'): Schema<number> {
  return scalar(`${unit}, ${min} to ${max}`, input => {
    const fits = typeof input === 'number' && Number.isSafeInteger(input) && input >= min && input <= max
    return fits ? input : new Fault(`is not a whole number from ${min} to ${max}`, 'Write digits only, without quotes')
  })
}

export function oneOf<const T extends string>(choices: readonly T[]): Schema<T> {
  return scalar(choices.map(choice => `\`${choice}\``).join(', '), input => {
    const found = choices.find(choice => choice === input)
    if (found !== undefined) return found
    const near = typeof input === 'string' ? nearest(input, choices) : undefined
    return new Fault(`is none of ${choices.join(', ')}`, near ? `Did you mean ${near}?` : 'Write one of these')
  })
}

export const keyType: Schema<KeyType> = oneOf(KEY_TYPES)

export const logLevels: Schema<LogLevels> = text(
  `${LOG_LEVELS.map(level => `\`${level}\``).join(', ')}; of some scopes: \`info,sds:debug,ca:trace\``,
  input => {
    const levels = parseLogLevels(input)
    return levels instanceof Fault ? levels : { ...everyScope(DEFAULT_LEVEL), ...levels }
  },
  'Write a level, or info,sds:debug',
)

export const flag: Schema<boolean> = scalar('`true`, `false`', input =>
  typeof input === 'boolean'
    ? input
    : new Fault(`is ${kindOf(input)}, not true or false`, 'Write true or false, without quotes'),
)

export const nonEmpty: Schema<string> = text(
  'text',
  input => (input === '' ? new Fault('is empty', 'Write a value, or remove the line') : input),
  'Quote it',
)

/** Whether a value that may be a path is PEM text. */
export function isPem(input: string): boolean {
  return input.trimStart().startsWith('-----BEGIN ')
}

/** An empty path stays empty, to be refused. */
export const absolutePath: MakeAbsolute = (written, folder) =>
  written === '' || isPem(written) ? written : resolve(folder, written)

/** A path, which is absolute once the defaults are filled in. */
export const path: Schema<string> = withPath(
  text(
    'path',
    input => {
      if (input === '') return new Fault('is empty', 'Write a path, or remove the line')
      return input.includes('\0') ? new Fault('has a NUL character', 'Write a plain path') : input
    },
    'Write a path',
  ),
  absolutePath,
)

/** As {@link path}, or `system`. */
export const rootCert: Schema<string> = withPath(path, (written, folder) =>
  written === 'system' ? written : absolutePath(written, folder),
)

export const trustDomain: Schema<string> = text(
  'trust domain',
  input => {
    const problem = trustDomainProblem(input)
    return problem === undefined
      ? input
      : new Fault(`is not a trust domain: it ${problem}`, 'Write one such as cluster.local')
  },
  'Write a name such as cluster.local',
)

function checkSpiffeId(input: string): SpiffeId | Fault {
  const problem = spiffeIdProblem(input)
  if (problem === undefined) return input as SpiffeId
  return new Fault(
    `is not a SPIFFE ID: ${problem.startsWith('its') ? problem : `it ${problem}`}`,
    'Write spiffe://<trust domain>/ns/<namespace>/sa/<service account>',
  )
}

export const spiffeId: Schema<SpiffeId> = text('SPIFFE ID', checkSpiffeId, 'Write a SPIFFE ID')

/** Letters of any case, as in DNS. */
export const dnsName: Schema<string> = text(
  'DNS name',
  input => {
    const name = input.toLowerCase()
    const problem = dnsNameProblem(name)
    return problem === undefined ? name : new Fault(problem, 'Write such as web.example or "*.web.example"')
  },
  'Quote it',
)

function checkFilePattern(input: string): string | Fault {
  const pattern = parseFilePattern(input)
  if (typeof pattern !== 'string') return input
  return new Fault(
    pattern,
    'Write such as file-cert:/etc/certs/*, file-cert:/a/cert.pem~/a/key.pem, file-root:/a/ca.pem, kubernetes://edge/* or token://AUDIENCE',
  )
}

/** A name of files: `file-cert:CHAIN~KEY`, `file-root:FILE`. */
export const fileSecretName: Schema<string> = text(
  'name of files',
  input => {
    const name = parseFileName(input)
    if (typeof name !== 'string') return input
    return new Fault(
      name,
      'Write such as file-cert:/a/cert.pem~/a/key.pem, file-root:/a/ca.pem, kubernetes://NAMESPACE/NAME or token://AUDIENCE',
    )
  },
  'Quote it',
)

function checkSpiffePattern(input: string): string | Fault {
  const problem = isSpiffeId(input) ? undefined : spiffePatternProblem(input)
  if (problem === undefined) return input
  return new Fault(
    problem,
    'Write such as spiffe://cluster.local/ns/*/sa/web-* (* is part of a path segment, ** the rest)',
  )
}

/** Names that callers may use for secrets which others write: `file-cert:/etc/certs/*`, `kubernetes://edge/*`, `token://api.example`. */
export const filePattern: Schema<string> = text('name or pattern of files', checkFilePattern, 'Quote it')

/** A name that a socket or caller is allowed. In a SPIFFE ID `*` is part of a path segment, `**` the rest of the path. */
export const allowEntry: Schema<string> = text(
  'SPIFFE ID, name of files or of a Secret, or a pattern of them',
  input => (isFileName(input) ? checkFilePattern(input) : checkSpiffePattern(input)),
  'Quote it',
)

const NAME = '[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?'
const LABEL = '[A-Za-z0-9](?:[-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?'
const CALLER_SELECTOR = new RegExp(`^(?:(?:ns|sa):${NAME}|label:(?:${NAME}/)?${LABEL}=(?:${LABEL})?)$`)

/** A property of a pod: `ns:NAMESPACE`, `sa:SERVICE-ACCOUNT` or `label:KEY=VALUE`, in Kubernetes' syntax. */
export const callerSelector: Schema<string> = text(
  '`ns:NAMESPACE`, `sa:SERVICE-ACCOUNT`, `label:KEY=VALUE`',
  input =>
    CALLER_SELECTOR.test(input)
      ? input
      : new Fault(
          'is not a selector of pods',
          'Write ns:NAMESPACE, sa:SERVICE-ACCOUNT or label:KEY=VALUE; a pattern is not possible',
        ),
  'Quote it',
)

/** A file mode, quoted: YAML 1.1 and 1.2 read a bare 0660 as two different numbers. */
export const socketMode: Schema<number> = scalar('file mode in quotes', input => {
  const typed = /^[0-7]{3}$/.test(String(input)) ? `0${input}` : '0660'
  const remedy = `Write it in octal and in quotes: "${typed}"`
  if (typeof input !== 'string') return new Fault('is a bare number, which YAML does not read as octal', remedy)
  if (!/^0?[0-7]{3}$/.test(input)) return new Fault('is not a file mode', remedy)
  return Number.parseInt(input, 8)
})

/** The owner or group of a socket by number, or by a name in `database` (`/etc/passwd`, `/etc/group`). */
export function account(database: string): Schema<number> {
  return scalar('name or number', input => {
    if (typeof input === 'number' && Number.isSafeInteger(input) && input >= 0) return input
    if (typeof input !== 'string' || input === '')
      return new Fault('is not a user or group', 'Write a name or a number')
    const line = (existsSync(database) ? readFileSync(database, 'utf8') : '')
      .split('\n')
      .find(entry => entry.startsWith(`${input}:`))
    const id = line?.split(':')[2]
    return id === undefined ? new Fault(`is not in ${database}`, 'Write another name, or the number') : Number(id)
  })
}

const NO_ADDRESS = new Fault(
  'is not an address with a port of at most 65535',
  'Write host:port, such as 127.0.0.1:15100 or "[::1]:15100"',
)

/** `127.0.0.1:15100`, `localhost:15100`, `[::1]:15100`; port 0 lets the kernel choose. */
export const hostPort: Schema<HostPort> = text(
  '`host:port`',
  input => parseHostPort(input) ?? NO_ADDRESS,
  'Write host:port',
)

/** As {@link hostPort}, or the path of a UNIX socket. */
export const listenAddress: Schema<ListenAddress> = withPath(
  text(
    '`host:port`, `unix:PATH`',
    input => {
      const address = parseListenAddress(input)
      if (address) return address
      return input.startsWith(UNIX_PREFIX) ? new Fault('is not the path of a socket', 'Write unix:/path') : NO_ADDRESS
    },
    'Write host:port',
  ),
  (written, folder) =>
    written.startsWith(UNIX_PREFIX)
      ? `${UNIX_PREFIX}${absolutePath(written.slice(UNIX_PREFIX.length), folder)}`
      : written,
)

export function parseListenAddress(input: string): ListenAddress | undefined {
  if (!input.startsWith(UNIX_PREFIX)) return parseHostPort(input)
  const path = input.slice(UNIX_PREFIX.length)
  return path === '' || path.includes('\0') ? undefined : { path }
}

export function formatListenAddress(address: ListenAddress): string {
  return 'path' in address ? `${UNIX_PREFIX}${address.path}` : formatHostPort(address)
}

/** Splits `host:port`; `undefined` for anything else. */
export function parseHostPort(input: string): HostPort | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(input)
  const port = Number(match?.[3])
  const host = match?.[1] ?? match?.[2]
  if (host === undefined || port > 65_535) return undefined
  if (match?.[1] !== undefined && !isIPv6(host)) return undefined
  return { host, port }
}

export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

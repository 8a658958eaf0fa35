/** The keys of the configuration file: names, forms and bounds. A new knob is one line here and one in `defaults.ts`. */

import { splitCertificates } from '@livery/core'
import { RSA_KEYS } from '@livery/native-keygen/defaults'
import * as v from 'valibot'
import { parseLabelSelector } from '../kubernetes/label-selector.ts'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { LOG_LEVELS } from '../schema/log-level.ts'
import { faultMessage, kindOf, list, object, record, type Schema, scalar, text } from '../schema/schema-parts.ts'
import {
  account,
  allowEntry,
  callerSelector,
  checkSpiffeId,
  duration,
  filePattern,
  fileSecretName,
  flag,
  hostPort,
  isPem,
  keyType,
  listenAddress,
  nonEmpty,
  numberBetween,
  oneOf,
  path,
  socketMode,
  spiffeId,
  trustDomain,
  wholeNumber,
} from '../schema/values.ts'

/** One entry of `identities`. */
export type IdentitySetting = (
  | { readonly id: string; readonly range?: undefined }
  | { readonly range: string; readonly id?: undefined }
) & {
  readonly socket?: OwnSocket | undefined
  readonly tokenFile?: string | undefined
  readonly output?: OutputSetting | undefined
}

/** The largest uid and gid: one more is -1, which chown(2) takes for none. */
const MAX_ID = 4_294_967_294

const identityRange = text(input => {
  const braces = input.match(/[{}]/g)?.length ?? 0
  if (braces !== 2 || !/\{\d+\.\.\d+\}/.test(input)) {
    return new Fault('has not exactly one range', 'Write one brace with two numbers, such as sa-{0..9999}')
  }
  return input
}, 'Quote it')

/** SO_PEERCRED has the uid and the primary group of the process that connected; `selectors` are about its pod. */
const callerFields = {
  uid: v.optional(wholeNumber(0, MAX_ID)),
  gid: v.optional(wholeNumber(0, MAX_ID)),
  selectors: v.optional(list(callerSelector)),
}
type CallerFields = { readonly [Field in keyof typeof callerFields]?: unknown }
const namesSomebody = <T extends CallerFields>() =>
  v.check<T, string>(
    ({ uid, gid, selectors }) =>
      uid !== undefined || gid !== undefined || (Array.isArray(selectors) && selectors.length > 0),
    faultMessage(new Fault('has no uid, gid or selectors, so it would let in everybody', 'Add one of them')),
  )

const limits = object({
  connections: wholeNumber(1, 1_000_000),
  streams: wholeNumber(1, 1_000_000),
  names: wholeNumber(1, 100_000),
  messageBytes: wholeNumber(4_096, 64 * 1024 * 1024),
  perCaller: object({
    connections: wholeNumber(1, 1_000_000),
    streams: wholeNumber(1, 1_000_000),
    names: wholeNumber(1, 10_000_000),
    requestsPerSecond: wholeNumber(1, 10_000_000),
    bytes: wholeNumber(1_048_576, 64 * 1024 ** 3),
    identities: v.optional(wholeNumber(1, 1_000_000)),
    files: wholeNumber(1, 4_000),
    identitiesPerMinute: wholeNumber(1, 1_000_000),
  }),
})

/** The file of a socket, and how much its callers may hold. */
const socketFile = {
  path,
  mode: socketMode,
  owner: v.optional(account('/etc/passwd')),
  group: v.optional(account('/etc/group')),
  workloadApi: flag,
  limits,
}

/** `kubernetes`: the callers of a socket are identified by their pods. */
const identify = v.optional(
  v.pipe(
    oneOf(['kubernetes']),
    v.transform(() => true),
  ),
)

const ownSocketMapping = object({
  ...socketFile,
  allow: v.optional(list(filePattern)),
  callers: v.optional(list(v.pipe(object(callerFields), namesSomebody()))),
  identify,
})

/** An identity's own socket. A bare path has the defaults of the server. */
export type OwnSocket = Pick<v.InferOutput<typeof ownSocketMapping>, 'path'> &
  Partial<v.InferOutput<typeof ownSocketMapping>>

const ownSocket = v.lazy(input =>
  isTreeObject(input)
    ? ownSocketMapping
    : v.pipe(
        path,
        v.transform(only => ({ path: only })),
      ),
) as Schema<OwnSocket>

const reloadBySignal = object({ signal: oneOf(['SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGTERM']), pidFile: path })
const reloadByCommand = object({
  command: v.pipe(
    list(nonEmpty),
    v.rawTransform<string[], readonly [string, ...string[]]>(({ dataset: { value }, addIssue, NEVER }) => {
      const [program, ...args] = value
      if (program?.startsWith('/')) return [program, ...args]
      const fault = new Fault('does not begin with an absolute path', 'Write such as [/usr/sbin/nginx, -s, reload]')
      addIssue({ message: faultMessage(fault) })
      return NEVER
    }),
  ),
})

/** How a program is asked to read its files again. */
export type ReloadSetting = v.InferOutput<typeof reloadBySignal> | v.InferOutput<typeof reloadByCommand>

const reload = v.lazy(input =>
  isTreeObject(input) && 'command' in input ? reloadByCommand : reloadBySignal,
) as Schema<ReloadSetting>

const output = object({
  directory: path,
  mode: socketMode,
  owner: v.optional(account('/etc/passwd')),
  group: v.optional(account('/etc/group')),
  bundle: flag,
  reload: v.optional(reload),
})

/** Where the certificate of an identity is written. The paths are absolute. */
export type OutputSetting = v.InferOutput<typeof output>

const ofIdentity = { output: v.optional(output), socket: v.optional(ownSocket), tokenFile: v.optional(path) }

const identity = v.lazy(input => {
  if (typeof input === 'string')
    return v.pipe(
      text(checkSpiffeId, ''),
      v.transform(id => ({ id })),
    )
  if (isTreeObject(input) && 'range' in input) return object({ range: identityRange, ...ofIdentity })
  return object({ id: spiffeId, ...ofIdentity })
}) as Schema<IdentitySetting>

const caller = v.pipe(object({ ...callerFields, allow: v.optional(list(allowEntry)) }), namesSomebody())

const socket = object({
  ...socketFile,
  allow: list(allowEntry),
  callers: v.optional(list(caller)),
  identify,
  onDemand: flag,
})

/** Keys made ahead. */
const keyPool = v.lazy(input =>
  isTreeObject(input)
    ? object({
        cpu: numberBetween(0.01, 1, 'It is the part of one core that may make keys ahead: 0.25 is a quarter'),
      })
    : scalar(other =>
        other === 'off' ? ('off' as const) : new Fault('is neither off nor a mapping', 'Write off, or { cpu: 0.25 }'),
      ),
) as Schema<'off' | { cpu: number }>

const listener = object({ address: hostPort })

/** PEM itself, or the path of a file. */
const anchor = text(input => {
  if (!isPem(input)) return input === '' ? new Fault('is empty', 'Write a path or PEM') : input
  if (splitCertificates(input).length > 0) return input
  return new Fault('has no certificate', 'Write the roots as PEM: -----BEGIN CERTIFICATE-----')
}, 'Write a path, or PEM')

const httpsUrl = text(input => {
  const url = URL.canParse(input) ? new URL(input) : undefined
  const remedy = 'Write it like https://other.example/bundle'
  if (url?.protocol !== 'https:') return new Fault('is not an https URL', remedy)
  if (url.username !== '' || url.password !== '')
    return new Fault('has a user name or a password', 'Remove it: a bundle is public')
  return url.hash === '' ? input : new Fault('has a fragment', remedy)
}, 'Write a URL')

/** Where the roots of another trust domain come from, and its revocation lists. `rootCert` verifies the server of `url`. */
export type Federated = { readonly crl?: string | undefined } & (
  | { readonly file: string; readonly url?: undefined }
  | { readonly url: string; readonly rootCert?: string | undefined }
)

const federated = v.lazy(input =>
  isTreeObject(input) && 'file' in input
    ? object({ file: path, crl: v.optional(path) })
    : object({ url: httpsUrl, rootCert: v.optional(anchor), crl: v.optional(path) }),
) as Schema<Federated>

const labelSelector = text(
  input =>
    parseLabelSelector(input) ?? new Fault('is not a label selector', 'Write it as for kubectl -l: app=web,tier!=test'),
  'Quote it',
)

/** RFC 1123, as Kubernetes checks the names of nodes and namespaces. */
const kubernetesName = text(input => {
  const isName = input.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(input)
  return isName ? input : new Fault('is not a name (RFC 1123)', 'Write lower-case letters, digits, "-" and "."')
}, 'Quote it')

const fileName = text(input => {
  const isName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(input)
  return isName ? input : new Fault('is not a plain file name', 'Write such as socket')
}, 'Quote it')

/** Identities of the pods of this node. */
const kubernetes = object({
  nodeName: kubernetesName,
  identity: nonEmpty,
  selector: labelSelector,
  namespaces: object({ only: list(kubernetesName), except: list(kubernetesName) }),
  sockets: object({ root: path, name: fileName, mode: socketMode }),
  csi: v.optional(object({ socket: path, kubeletRoot: path })),
  cgroupRoot: v.optional(
    text(
      input => (input.startsWith('/') ? input : new Fault('is not an absolute path', 'Write such as /kubelet')),
      'Quote it',
    ),
  ),
})

export type KubernetesSetting = v.InferOutput<typeof kubernetes>

const settings = {
  trustDomain,
  keyType,
  ttl: duration({ min: '1s', max: '3650d' }),
  rotation: object({
    ratio: numberBetween(0.01, 0.99, 'It is the part of the lifetime after which to renew: 0.5 is half'),
    jitter: numberBetween(0, 0.5, 'It is the part of the lifetime by which renewals are spread: 0.1 is ±10 %'),
    settle: v.optional(duration({ min: '0s', max: '24h' })),
    ackWait: duration({ min: '0s', max: '24h' }),
    overlap: v.optional(duration({ min: '0s', max: '365d' })),
  }),
  trust: object({
    poll: duration({ min: '10s', max: '24h' }),
    anchors: list(anchor),
    crl: v.optional(path),
    federated: record(
      federated,
      input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { other.example: { file } }'),
    ),
  }),
  retry: object({
    min: duration({ min: '10ms', max: '1h' }),
    max: duration({ min: '10ms', max: '24h' }),
  }),
  concurrency: wholeNumber(1, 10_000),
  keyPool,
  rsaKeys: oneOf(RSA_KEYS),
  ca: v.optional(v.unknown()),
  identities: list(identity),
  removal: object({ grace: duration({ min: '0s', max: '30d' }) }),
  idle: object({ after: duration({ min: '1s', max: '3650d' }), action: oneOf(['renew', 'drop']) }),
  maxIdentities: wholeNumber(1, 1_000_000),
  kubernetes: v.optional(kubernetes),
  store: v.optional(object({ directory: path, bootstrap: v.optional(path) })),
  sharedFolders: list(path),
  sockets: list(socket),
  files: object({
    allow: v.optional(list(path)),
    wellKnown: list(path),
    names: record(
      fileSecretName,
      input => new Fault(`is ${kindOf(input)}, not a mapping`, 'Write { "sds://NAME": "file-cert:CHAIN~KEY" }'),
    ),
    expired: oneOf(['withhold', 'serve']),
    poll: duration({ min: '1s', max: '1h' }),
  }),
  output: v.optional(output),
  names: object({ default: nonEmpty, root: nonEmpty, all: nonEmpty }),
  sds: object({
    takeover: flag,
    refusedNames: oneOf(['omit', 'invalidate']),
    requestTimeout: duration({ min: '1s', max: '1h' }),
    fetchWait: duration({ min: '0s', max: '1h' }),
    nacksPerMinute: wholeNumber(1, 1_000_000),
    connectionIdle: duration({ min: '1s', max: '24h' }),
    keepalive: duration({ min: '1s', max: '24h' }),
    keepaliveTimeout: duration({ min: '1s', max: '1h' }),
    callerBytes: v.optional(wholeNumber(16_777_216, 64 * 1024 ** 3)),
  }),
  admin: object({
    address: listenAddress,
    mode: v.optional(socketMode),
    owner: v.optional(account('/etc/passwd')),
    group: v.optional(account('/etc/group')),
    tokenFile: v.optional(path),
  }),
  health: v.optional(listener),
  drain: duration({ min: '0s', max: '1h' }),
  log: object({ level: oneOf(LOG_LEVELS), format: oneOf(['json', 'pretty']) }),
  profile: v.optional(oneOf(['istio'])),
}

/** The whole file but `ca`, whose keys depend on its plugin, with every default filled in and every path absolute. */
export const settingsSchema = object(settings)

/** The validated settings: durations in milliseconds, addresses split, paths absolute. */
export type Settings = v.InferOutput<typeof settingsSchema>

/** The keys of the configuration file: names, forms and bounds. A new knob is one line here and one in `defaults.ts`. */

import { RSA_KEYS } from '@livery/native-keygen/defaults'
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { LOG_LEVELS } from '../schema/log-level.ts'
import { kindOf, list, object, record, type Schema, scalar } from '../schema/schema-parts.ts'
import {
  account,
  duration,
  fileSecretName,
  flag,
  hostPort,
  keyType,
  listenAddress,
  nonEmpty,
  numberBetween,
  oneOf,
  path,
  socketMode,
  trustDomain,
  wholeNumber,
} from '../schema/values.ts'
import { identity } from './identity-schema.ts'
import { kubernetes } from './kubernetes-schema.ts'
import { output } from './output-schema.ts'
import { socket } from './socket-schema.ts'
import { trust } from './trust-schema.ts'

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
  trust,
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

/** The keys of sockets: of `sockets`, and of an identity's own. */
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { faultMessage, list, object, type Schema } from '../schema/schema-parts.ts'
import {
  account,
  allowEntry,
  callerSelector,
  filePattern,
  flag,
  oneOf,
  path,
  socketMode,
  wholeNumber,
} from '../schema/values.ts'

/** The largest uid and gid: one more is -1, which chown(2) takes for none. */
const MAX_ID = 4_294_967_294

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

export const ownSocket = v.lazy(input =>
  isTreeObject(input)
    ? ownSocketMapping
    : v.pipe(
        path,
        v.transform(only => ({ path: only })),
      ),
) as Schema<OwnSocket>

const caller = v.pipe(object({ ...callerFields, allow: v.optional(list(allowEntry)) }), namesSomebody())

export const socket = object({
  ...socketFile,
  allow: list(allowEntry),
  callers: v.optional(list(caller)),
  identify,
  onDemand: flag,
})

/** The keys of sockets: entries of `sockets`, and an identity's own socket. */
import { DEFAULT_LIMITS, DEFAULT_MODE, DEFAULT_WORKLOAD_API } from '@livery/sds-server/defaults'
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { faultMessage, key, list, object, oneForm, section } from '../schema/schema-parts.ts'
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

/** The largest uid and gid: one more is -1, which chown(2) reads as no change. */
const MAX_ID = 4_294_967_294

/** SO_PEERCRED gives the uid and primary group of the process that connected; `selectors` are about its pod. */
const callerFields = {
  uid: v.optional(key('the uid of the calling process, as the kernel reports it', wholeNumber(0, MAX_ID))),
  gid: v.optional(key('its primary gid', wholeNumber(0, MAX_ID))),
  selectors: v.optional(key('selectors, all of which its pod has to match', list(callerSelector))),
}
type CallerFields = { readonly [Field in keyof typeof callerFields]?: unknown }
const namesSomebody = <T extends CallerFields>() =>
  v.check<T, string>(
    ({ uid, gid, selectors }) =>
      uid !== undefined || gid !== undefined || (Array.isArray(selectors) && selectors.length > 0),
    faultMessage(new Fault('has no uid, gid or selectors, so it would let in everybody', 'Add one of them')),
  )

const limits = section('limits on what callers make the agent hold', {
  connections: key('connections of the socket', wholeNumber(1, 1_000_000), { default: DEFAULT_LIMITS.connections }),
  streams: key('calls of the socket', wholeNumber(1, 1_000_000), { default: DEFAULT_LIMITS.streams }),
  names: key('names of one stream', wholeNumber(1, 100_000), { default: DEFAULT_LIMITS.names }),
  messageBytes: key('the size of one request', wholeNumber(4_096, 64 * 1024 * 1024, 'bytes'), {
    default: DEFAULT_LIMITS.messageBytes,
  }),
  perCaller: section('the limits of one caller on all sockets together: a uid, or a pod where `identify` is set', {
    connections: key('its connections, at most as many as remain free', wholeNumber(1, 1_000_000), {
      default: DEFAULT_LIMITS.perCaller.connections,
    }),
    streams: key('its calls, at most as many as remain free', wholeNumber(1, 1_000_000), {
      default: DEFAULT_LIMITS.perCaller.streams,
    }),
    names: key('the names of all its streams', wholeNumber(1, 10_000_000), { default: DEFAULT_LIMITS.perCaller.names }),
    requestsPerSecond: key('ACKs count; beyond it the caller waits', wholeNumber(1, 10_000_000), {
      default: DEFAULT_LIMITS.perCaller.requestsPerSecond,
    }),
    bytes: key('the memory that it may make the process hold', wholeNumber(1_048_576, 64 * 1024 ** 3, 'bytes'), {
      default: DEFAULT_LIMITS.perCaller.bytes,
    }),
    identities: v.optional(
      key(
        'identities held on demand at its request; without it, half of `maxIdentities` less the listed ones',
        wholeNumber(1, 1_000_000),
      ),
    ),
    files: key('names of files that are watched for it', wholeNumber(1, 4_000), {
      default: DEFAULT_LIMITS.perCaller.files,
    }),
    identitiesPerMinute: key(
      'identities on demand that it may add; one more waits for its turn',
      wholeNumber(1, 1_000_000),
      {
        default: DEFAULT_LIMITS.perCaller.identitiesPerMinute,
      },
    ),
  }),
})

/** The keys that every UNIX socket has. */
export const socketOwner = {
  owner: v.optional(
    key("its owner; without it, the agent's user. Only root can give a socket away", account('/etc/passwd')),
  ),
  group: v.optional(key("its group; without it, the group of the agent's user", account('/etc/group'))),
}

/** The file of a socket, and how much its callers may hold. */
const socketFile = {
  path: key('the socket; at most 107 bytes', path),
  mode: key('its mode', socketMode, { default: `0${DEFAULT_MODE.toString(8)}` }),
  ...socketOwner,
  limits,
}

/** `kubernetes`: callers are identified by their pods. */
const identify = v.optional(
  key(
    'each caller is identified by its pod, and `default` means the identity of that pod',
    v.pipe(
      oneOf(['kubernetes']),
      v.transform(() => true),
    ),
  ),
)

const workloadApi = (isDefault: boolean) => key('also serves the SPIFFE Workload API', flag, { default: isDefault })

const ownSocketMapping = object({
  ...socketFile,
  workloadApi: workloadApi(DEFAULT_WORKLOAD_API.own),
  allow: v.optional(
    key('files that its callers may name; `*` is the files of a folder, `**` all below', list(filePattern)),
  ),
  callers: v.optional(
    key(
      'callers allowed; default: anyone who can open the socket',
      list(v.pipe(object(callerFields), namesSomebody())),
    ),
  ),
  identify,
})

/** An identity's own socket. A bare path has the defaults of the server. */
export type OwnSocket = Pick<v.InferOutput<typeof ownSocketMapping>, 'path'> &
  Partial<v.InferOutput<typeof ownSocketMapping>>

const ownSocketPath = v.pipe(
  path,
  v.transform(only => ({ path: only })),
)

export const ownSocket = oneForm<OwnSocket>([ownSocketPath, ownSocketMapping], input =>
  isTreeObject(input) ? ownSocketMapping : ownSocketPath,
)

const caller = v.pipe(
  object({
    ...callerFields,
    allow: v.optional(
      key('the names that this caller may ask for; without it, the names of the socket', list(allowEntry)),
    ),
  }),
  namesSomebody(),
)

export const socket = object({
  ...socketFile,
  workloadApi: workloadApi(DEFAULT_WORKLOAD_API.shared),
  allow: key(
    'the names that callers may ask for. In a SPIFFE ID `*` is part of a path segment, `**` the rest of the path',
    list(allowEntry),
    { default: [] },
  ),
  callers: v.optional(key('callers allowed; default: anyone who can open the socket', list(caller))),
  identify,
  onDemand: key('an allowed identity that is not listed is issued when a stream asks for it', flag, { default: false }),
})

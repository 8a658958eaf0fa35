/** One row per kind of event: the log, the ledger and the page read it, and docs/reference/logs.md lists it for people. */
import { remedyOf } from '../diagnosis/remedies.ts'
import type { AgentEvent, EventKind, EventOf } from './agent-event.ts'
import { type Row, rows } from './event-row.ts'
import {
  connectionFields,
  describeCertificate,
  describeFiles,
  describePod,
  describeUncovered,
  iso,
  JUMPED,
  LATER,
  PHASES,
  peerFields,
  REASONS,
  REFUSED,
  RESTORED,
  short,
  streamFields,
  WITHDRAWN,
} from './event-words.ts'
import { formatAge } from './format-age.ts'

const ca = rows('ca')
const scheduler = rows('scheduler')
const store = rows('store')
const trust = rows('trust')
const files = rows('files')
const sds = rows('sds')
const admin = rows('admin')
const kubernetes = rows('kubernetes')

const onlyPath = { fields: ({ path }: { readonly path: string }) => ({ path }) }

const ROWS: { readonly [Kind in EventKind]: Row<EventOf<Kind>> } = {
  // Requests to the CA, and its answers.
  'csr-sent': ca.debug(({ reason }) => `asked the CA for a certificate (${REASONS[reason]})`, { same: ['reason'] }),
  issued: ca.info(event => `issued: ${describeCertificate(event)}`),
  'ca-error': ca.warn(
    ({ local, code, message }) =>
      `${local ? 'this node could not ask the CA' : 'the CA did not issue'} (${code}): ${message}`,
    { isSecurity: ({ code }) => code === 'bad-response', same: ['code', 'local', 'message'] },
  ),
  'ca-down': ca.warn(
    () => `the CA does not answer: until it does, one request at a time probes it. ${remedyOf('ca-down', 0)}`,
  ),
  'ca-back': ca.info(({ downSince }) => `the CA answers again, after an outage since ${iso(downSince)}`),
  'shared-failure': ca.warn(
    event =>
      `all who ask fail with ${event.failure}: until one succeeds, one request at a time probes the cause. ${remedyOf(event.failure, 0)}`,
  ),
  'shared-failure-over': ca.info(
    ({ failure, since }) => `one succeeded, so all that failed with ${failure} since ${iso(since)} are tried again`,
  ),
  'ttl-lowered': ca.warn(
    ({ fromSeconds, toSeconds }) =>
      `the CA refused a lifetime of ${fromSeconds} s as too long: ${toSeconds} s are asked for from now on. Set ttl to what the CA gives.`,
  ),
  'life-too-short': ca.warn(
    ({ lifetimeMs, surviveMs }) =>
      `certificates of this CA live for ${formatAge(lifetimeMs)}, too short to outlive an outage of ${formatAge(surviveMs)} (rotation.survive): they are renewed by rotation.ratio. Raise ttl and what the CA allows, or lower rotation.survive.`,
  ),

  // When certificates are renewed, tried again, held and dropped.
  'retry-planned': scheduler.debug(({ at }) => `next try planned for ${iso(at)}`, { same: [] }),
  'served-later': scheduler.info(({ until, reason }) => `served from ${iso(until)} on: ${LATER[reason]}`),
  'clock-jumped': scheduler.warn(
    ({ how, ms }) =>
      `${JUMPED[how]} ${formatAge(ms)}: roots are asked for again, then certificates, soonest expiry first`,
  ),
  withdrawn: scheduler.info(({ reason }) => `withdrawn: ${WITHDRAWN[reason]}`, {
    level: ({ reason }) => (reason === 'expired' ? 'warn' : 'info'),
  }),
  removed: scheduler.info(({ until }) => `no longer named by the configuration or a pod: held until ${iso(until)}`),
  kept: scheduler.info(() => 'named again by the configuration or a pod: kept'),
  'no-room': scheduler.security.warn(
    ({ maxIdentities }) => `not taken on: maxIdentities (${maxIdentities}) are held, and each is configured or in use`,
    { same: [] },
  ),

  // Certificates on disk.
  restored: store.info(event => `${RESTORED[event.from]}: ${describeCertificate(event)}`),
  'not-restored': store.security.warn(({ reason }) => `not taken from the disk, the CA is asked: ${reason}`, {
    same: ['reason'],
  }),
  'not-stored': store.warn(
    ({ reason }) => `the store failed, which will be tried again; what is served is not affected: ${reason}`,
    { same: ['reason'] },
  ),

  // Roots, their rotation, revocation lists.
  'preflight-failed': trust.security.warn(
    ({ isServed, reason }) =>
      isServed
        ? `served, although clients would refuse it with the roots that they are served, since no better certificate exists: ${reason}`
        : `not served, the one in use stays: clients would refuse it with the roots that they are served: ${reason}`,
    { same: ['isServed', 'reason'] },
  ),
  revoked: trust.security.warn(({ reason }) => `revoked, peers refuse it: another is asked for now: ${reason}`),
  'roots-changed': trust.security.info(
    ({ roots, version }) =>
      `trust bundle changed: ${roots} ${roots === 1 ? 'root' : 'roots'}, version ${short(version)}`,
  ),
  'root-phase': trust.security.info(
    ({ fingerprint, phase, reason }) => `root ${short(fingerprint)} ${PHASES[phase]}: ${reason}`,
  ),
  'roots-rejected': trust.security.warn(
    ({ source, count, reason }) => `roots of ${source} were left out (${count}): ${reason}`,
    { same: ['source', 'reason'] },
  ),
  'roots-unavailable': trust.security.warn(
    ({ source, reason }) => `${source} has no usable list of roots, what it listed before stays in force: ${reason}`,
    { same: ['source', 'reason'] },
  ),
  'crl-changed': trust.security.info(
    ({ lists, uncovered }) => `revocation lists served: ${lists}${describeUncovered(uncovered)}`,
    { level: ({ uncovered }) => (uncovered.length > 0 ? 'warn' : 'info') },
  ),
  'crl-unavailable': trust.security.warn(
    ({ source, reason }) => `the revocation lists in ${source} cannot be used, the last ones stay in force: ${reason}`,
    { same: ['source', 'reason'] },
  ),

  // Secrets that others write.
  'read-from-files': files.info(event => `read: ${describeFiles(event)}`),
  'files-unusable': files.warn(
    ({ reason, isServed }) => `${reason}${isServed ? ' What was read before stays in use.' : ''}`,
    { same: ['reason'] },
  ),
  ending: files.warn(({ notAfter }) => `what is served ends at ${iso(notAfter)}, and nothing newer has come`),

  // Streams: who asks for which name, and gets what.
  asked: sds.debug(({ by }) => `asked for by ${by}`, { same: [] }),
  refused: sds.security.warn(({ by, reason }) => `refused to ${by}: ${reason}`, { same: ['reason'] }),
  postponed: sds.debug(({ by, reason }) => `postponed for ${by}: ${reason}`, { same: ['reason'] }),
  'refused-unnamed': sds.security.warn(
    () => 'a name was refused: this caller has more refused names than are listed individually',
    { eventName: () => 'refused', fields: peerFields },
  ),
  pushed: sds.debug(({ to, version }) => `pushed to ${to}, version ${short(version)}`, { same: ['version'] }),
  acked: sds.debug(({ by, version }) => `accepted (ACK) by ${by}, version ${short(version)}`, { same: ['version'] }),
  nacked: sds.security.warn(
    ({ by, version, detail }) => `rejected (NACK) by ${by}, version ${short(version)}: ${detail}`,
    { same: ['version', 'detail'] },
  ),

  // Sockets and callers.
  'connection-opened': sds.debug(() => 'a connection was opened', { fields: connectionFields }),
  'connection-closed': sds.debug(() => 'a connection was closed', { fields: connectionFields }),
  'connection-refused': sds.security.warn(({ reason }) => `connection refused: ${REFUSED[reason]}`, {
    fields: event => {
      const { connection, reason, detail } = event
      return { ...peerFields(event), subject: connection.subject, reason, detail }
    },
  }),
  'stream-opened': sds.debug(() => 'a stream was opened', { fields: streamFields }),
  'stream-closed': sds.debug(() => 'a stream was closed', {
    fields: event => {
      const { stream, status, details } = event
      return { ...streamFields(event), openedAt: iso(stream.openedAt), status, details }
    },
  }),
  'stream-refused': sds.security.warn(({ bound }) => `stream refused: the limit of the ${bound} is reached`, {
    fields: event => ({ ...peerFields(event), method: event.method, bound: event.bound }),
  }),
  'stream-failed': sds.error(() => 'a stream failed: a bug', {
    fields: ({ stream, error }) => ({ stream: stream.id, err: error }),
  }),
  'caller-slowed': sds.security.warn(
    () => 'requests wait: the caller sends more than limits.perCaller.requestsPerSecond of the socket',
  ),
  'few-descriptors': sds.warn(({ message }) => message),
  'accept-failed': sds.warn(() => 'a connection was not accepted'),
  'socket-waiting': sds.security.error(
    ({ isHandover, error }) =>
      isHandover
        ? 'this socket is new, and the agent that takes over serves it already'
        : `${sentence(error.message)} This socket is tried again every 5 s, and the others do not wait for it.`,
    { ...onlyPath, level: ({ isHandover }) => (isHandover ? 'info' : 'error') },
  ),
  'socket-acquired': sds.info(() => 'the socket is served: the other process has left it'),
  'socket-superseded': sds.security.warn(() => 'another process has taken over this socket path'),
  'socket-recreated': sds.warn(
    () => 'the socket file had vanished, or a successor that failed had replaced it, and was made again',
  ),
  'socket-reclaimed': sds.security.error(
    ({ from }) =>
      `another user${from} replaced this socket; it was restored: requests that were sent meanwhile went to that user`,
    onlyPath,
  ),
  'socket-folder-unsafe': sds.security.error(() => 'others can replace this socket'),
  'socket-unreachable': sds.warn(({ reason }) => `the socket cannot be reached: ${reason}.`, onlyPath),
  'socket-lost': sds.security.error(() => 'the socket file has vanished and cannot be made again'),

  // The admin endpoint and the operator.
  'endpoint-waiting': admin.security.error(
    ({ endpoint, message }) =>
      `${sentence(message)} SDS goes on without the ${endpoint} endpoint, which is tried again every 5 s.`,
  ),
  'endpoint-handover': admin.security.info(
    ({ endpoint, message }) => `the ${endpoint} endpoint waits for the previous agent to end: ${message}`,
  ),
  'endpoint-acquired': admin.security.info(({ endpoint }) => `the ${endpoint} endpoint listens now`),
  'admin-socket-disturbed': admin.security.warn(() => 'the admin socket was disturbed', {
    ...onlyPath,
    eventName: ({ event }) => event,
  }),
  'log-level-changed': admin.security.info(
    ({ to, by }) => `the log level is ${to} now, ${by === undefined ? 'as the configuration says' : `set by ${by}`}`,
  ),
  'log-level-refused': admin.security.warn(({ to, message }) => `not set to ${to}: ${message}`),
  'renewal-requested': admin.security.info(
    ({ resource, by }) => `asking the CA for ${resource} now: ${by} asked for a renewal`,
  ),
  'renewal-refused': admin.security.warn(({ message }) => `not renewed: ${message}`),
  'root-change': admin.security.info(({ action, root, by }) => `${action} of the root ${root}, by ${by}`),
  'root-change-refused': admin.security.warn(({ message }) => `not done: ${message}`),

  // The pods of this node.
  'pods-known': kubernetes.info(({ known, chosen }) => `this node has ${known} pods, ${chosen} with an identity`),
  'pods-unknown': kubernetes.warn(({ message }) => `the pods of this node are not known yet: ${message}`),
  'pods-away': kubernetes.warn(({ message }) => `the pods of this node stay as they are, and are held: ${message}`),
  'pod-added': kubernetes.info(describePod, { level: podLevel }),
  'pod-changed': kubernetes.info(describePod, { level: podLevel }),
  'pod-removed': kubernetes.info(({ pod }) => `pod ${pod} is gone`, { level: podLevel }),
  'pod-refused': kubernetes.warn(({ pod = 'a pod', message }) => `${pod} gets no identity: ${message}`),
  'pod-name-refused': kubernetes.warn(
    ({ pod = 'a pod', dnsName, message }) => `${pod} goes without the DNS name ${dnsName}: ${message}`,
  ),

  // The log itself.
  'log-lines-dropped': rows('agent').warn(
    ({ lines }) => `log lines dropped, since their reader was too slow: ${lines}`,
  ),
}

/** The row of an event. */
export function rowOf({ kind }: Pick<AgentEvent, 'kind'>): Row<AgentEvent> {
  return ROWS[kind]
}

/** Some messages end with a period. */
function sentence(message: string): string {
  return message.replace(/\.?$/, '.')
}

/** Most pods of a node may have no identity. */
function podLevel({ identity }: { readonly identity: string | undefined }): 'debug' | 'info' {
  return identity === undefined ? 'debug' : 'info'
}

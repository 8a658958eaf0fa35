/** The answer of `/streams`: who has which names on which socket, and which version of each. */
import type { StreamInfo, SubscribedName } from '@livery/sds-server'
import type { StreamFacts } from '../observe/stream-facts.ts'
import type { StreamSource } from './admin-source.ts'
import { type PodOf, streamFacts } from './stream-rows.ts'

/** Listed of one answer; the rest is only counted. */
const MAX_STREAMS = 20_000
/** Listed of one stream. */
const MAX_NAMES = 100

/** The first 100 of its names are listed. */
export interface ListedStream extends StreamFacts {
  /** RFC 3339. */
  readonly since: string
  /** Versions are those of SDS: a hash of a chain or of roots. Absent of a fetch. */
  readonly subscriptions: readonly SubscribedName[]
}

export interface ListedSocket {
  readonly path: string
  readonly state: string
  readonly connections: number
  readonly streams: number
  /** Of all its streams together. */
  readonly names: number
}

export interface ListedCaller {
  /** `uid 1001`, its subject, or the socket of callers without credentials. */
  readonly caller: string
  /** As of a stream. */
  readonly pod?: string
  readonly connections: number
  readonly streams: number
  readonly names: number
  /** The charge for its connections, streams and names: see `limits.perCaller.bytes`. */
  readonly bytes: number
}

export interface StreamList {
  /** RFC 3339. */
  readonly now: string
  /** In the order in which they were opened, socket by socket; with a name, those that have it. */
  readonly streams: readonly ListedStream[]
  /** How many streams more there are than are listed. */
  readonly notListed: number
  readonly sockets: readonly ListedSocket[]
  readonly callers: readonly ListedCaller[]
}

/**
 * A {@link StreamList} as JSON in pieces of one stream each. `now`: milliseconds since the epoch. `only`: the streams that
 * have this name. `podOf`: the namespace and name of the pod that a subject stands for.
 */
export function* streamPieces(
  source: StreamSource,
  now: number,
  only?: string,
  podOf: PodOf = () => undefined,
): Generator<string, void, undefined> {
  yield `{"now":"${iso(now)}","streams":[`
  const namesOf = new Map<string, number>()
  let listed = 0
  let notListed = 0
  for (const stream of source.streams()) {
    const info = stream.info()
    const { socket } = info.connection
    namesOf.set(socket, (namesOf.get(socket) ?? 0) + info.names)
    const names = firstNames(stream.subscribed(only))
    if (only !== undefined && names.length === 0) yield ''
    else if (listed === MAX_STREAMS) {
      notListed++
      yield ''
    } else yield `${listed++ === 0 ? '\n' : ',\n'}${JSON.stringify(listedStream(info, names, podOf))}`
  }
  yield `\n],"notListed":${notListed},"sockets":[`
  yield* rows(socketsOf(source, namesOf))
  yield '],"callers":['
  yield* rows(callersOf(source, podOf))
  yield ']}\n'
}

function firstNames(subscribed: Iterable<SubscribedName>): readonly SubscribedName[] {
  const names: SubscribedName[] = []
  for (const each of subscribed) {
    names.push(each)
    if (names.length === MAX_NAMES) break
  }
  return names
}

function listedStream(info: StreamInfo, subscriptions: readonly SubscribedName[], podOf: PodOf): ListedStream {
  return { ...streamFacts(info, podOf), since: iso(info.openedAt), subscriptions }
}

/** A path can have two: one that drains, and the one that took its place. The names are those of both. */
function* socketsOf(source: StreamSource, names: ReadonlyMap<string, number>): Generator<ListedSocket> {
  for (const { path, state, connections, streams } of source.sockets())
    yield { path, state, connections, streams, names: names.get(path) ?? 0 }
}

function* callersOf(source: StreamSource, podOf: PodOf): Generator<ListedCaller> {
  for (const { key, connections, streams, names, bytes } of source.callers()) {
    const pod = podOf(key)
    yield { caller: key, ...(pod !== undefined && { pod }), connections, streams, names, bytes }
  }
}

function* rows(values: Iterable<object>): Generator<string, void, undefined> {
  let separator = '\n'
  for (const value of values) {
    yield `${separator}${JSON.stringify(value)}`
    separator = ',\n'
  }
}

function iso(time: number): string {
  return new Date(time).toISOString()
}

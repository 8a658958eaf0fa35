/** The answer of `/streams`: the names and versions that each client has on each socket. */
import type { StreamInfo, SubscribedName } from '@livery/sds-server'
import type { StreamFacts } from '../observe/stream-facts.ts'
import type { StreamSource } from './admin-source.ts'
import { type PodOf, streamFacts } from './stream-rows.ts'

/** Streams that one answer lists; the rest is only counted. */
const MAX_STREAMS = 20_000
/** Names that are listed per stream. */
const MAX_NAMES = 100

/** Lists the first 100 of its names. */
export interface ListedStream extends StreamFacts {
  /** RFC 3339. */
  readonly since: string
  /** Versions are SDS versions: a hash of a chain or of roots. A fetch has none. */
  readonly subscriptions: readonly SubscribedName[]
}

export interface ListedSocket {
  readonly path: string
  readonly state: string
  readonly connections: number
  readonly streams: number
  /** Names of all its streams together. */
  readonly names: number
}

export interface ListedCaller {
  /** `uid 1001`, its subject, or the socket of callers without credentials. */
  readonly caller: string
  /** See {@link ListedStream}. */
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
  /** Ordered by socket, then by opening; if a name is asked for, only the streams that have it. */
  readonly streams: readonly ListedStream[]
  /** Number of further streams. */
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

/** Two sockets can share a path: one drains, its successor serves. The names of both are counted together. */
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

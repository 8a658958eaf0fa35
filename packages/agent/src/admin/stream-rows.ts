/** The rows of the agent's streams: rejections first, then streams that are behind, up to a limit. */
import type { ListedStream, StreamInfo, SubscribedName } from '@livery/sds-server'
import type { Rejection } from '../diagnosis/facts.ts'
import { Lowest } from '../diagnosis/lowest.ts'
import type { LoopTurns } from '../observe/loop-turns.ts'
import { clientOf, type PageStream, type PageStreams, type StreamFacts } from '../observe/stream-facts.ts'
import type { AdminSource } from './admin-source.ts'

const MAX_STREAMS = 500
/** Names that are looked at per stream. */
const MAX_NAMES = 100
const MAX_REJECTED = 3

/** The namespace and name of the pod that a subject stands for. */
export type PodOf = (subject: string) => string | undefined

/** Looks at every stream, each as it is when its turn comes. */
export async function composeStreams(source: AdminSource, turns: LoopTurns): Promise<PageStreams> {
  const shown = new Lowest<PageStream>(MAX_STREAMS)
  for (const stream of source.sds?.()?.streams() ?? []) {
    const row = streamRow(stream, subject => source.podOf?.(subject))
    shown.offer(rankOf(row), row)
    await turns.next()
  }
  return { total: shown.count, shown: shown.items() }
}

/** The clients that reject something, from the shown streams: these come first. */
export function rejectionsOf({ shown }: PageStreams): readonly Rejection[] {
  return shown.flatMap(stream => stream.rejected.slice(0, 1).map(name => ({ client: clientOf(stream), name })))
}

function rankOf({ rejected, pending, refused }: PageStream): number {
  if (rejected.length > 0) return 0
  if (pending > 0) return 1
  return refused > 0 ? 2 : 3
}

function streamRow(stream: ListedStream, podOf: PodOf): PageStream {
  const info = stream.info()
  return { ...streamFacts(info, podOf), since: info.openedAt, ...nameFacts(stream.subscribed()) }
}

export function streamFacts({ id, method, connection, node, names }: StreamInfo, podOf: PodOf): StreamFacts {
  const { socket, caller, subject } = connection
  const pod = subject === undefined ? undefined : podOf(subject)
  return {
    id,
    method,
    socket,
    ...(caller && { pid: caller.pid, uid: caller.uid }),
    ...(subject !== undefined && { subject }),
    ...(pod !== undefined && { pod }),
    node,
    names,
  }
}

function nameFacts(names: Iterable<SubscribedName>): Pick<PageStream, 'refused' | 'pending' | 'rejected'> {
  const rejected: string[] = []
  let refused = 0
  let pending = 0
  let looked = 0
  for (const subscribed of names) {
    if (++looked > MAX_NAMES) break
    if (subscribed.access === 'postponed') pending++
    else if (subscribed.access !== 'granted') refused++
    else if (isRejected(subscribed)) rejected.push(subscribed.secret ?? subscribed.name)
    else if (isPending(subscribed)) pending++
  }
  return { refused, pending, rejected: rejected.slice(0, MAX_REJECTED) }
}

function isRejected({ sent, rejected }: SubscribedName): boolean {
  return sent !== undefined && sent === rejected
}

/** A client that came with a version accepts none on this stream; the Workload API has no acceptance. */
function isPending({ current, sent, accepted }: SubscribedName): boolean {
  return current !== undefined && (sent !== current || (accepted !== undefined && accepted !== sent))
}

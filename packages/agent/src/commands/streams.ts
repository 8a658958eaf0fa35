/** `livery streams`: the clients of the running agent's sockets, with their names and versions. */
import { oneLine } from '@livery/core/plugin'
import type { SubscribedName } from '@livery/sds-server'
import type { ListedCaller, ListedSocket, ListedStream, StreamList } from '../admin/stream-list.ts'
import type { ConfigSources } from '../config/layers.ts'
import { formatAge } from '../observe/format-age.ts'
import { streamsForm } from './admin-answers.ts'
import { askAdmin, firstLine, readAdmin } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { count, layOut, printableJson, wrap } from './text-layout.ts'

/** `name`: only the streams that have it. */
export async function showStreams(
  name: string | undefined,
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const query = name === undefined ? '' : `?name=${encodeURIComponent(name)}`
  const list = await readAdmin<StreamList>(`/streams${query}`, streamsForm, sources)
  terminal.out(json ? `${printableJson(list)}\n` : describeStreams(list, terminal.columns))
  if (!json && name !== undefined && list.streams.length === 0)
    terminal.err(`livery: ${await whyNone(name, sources)}\n`)
  return EXIT.ok
}

/** Suggests the name that was probably meant, if the agent does not know this one. */
async function whyNone(name: string, sources: ConfigSources): Promise<string> {
  const { status, body } = await askAdmin(`/explain?name=${encodeURIComponent(name)}`, sources)
  const none = `no stream has ${JSON.stringify(oneLine(name))}.`
  return status === 404
    ? `${none} ${firstLine(body)}`
    : `${none} livery explain ${oneLine(name)} shows what happened to it`
}

/** One block per socket, in it one per stream, and the callers at the end. */
export function describeStreams(list: StreamList, columns = Number.POSITIVE_INFINITY): string {
  const now = Date.parse(list.now)
  const bySocket = Map.groupBy(list.streams, ({ socket }) => socket)
  const sockets = list.sockets.flatMap(socket => {
    const streams = bySocket.get(socket.path) ?? []
    // The first of two sockets with one path shows the lines of both.
    bySocket.delete(socket.path)
    return [describeSocket(socket), ...streams.flatMap(stream => describeStream(stream, now, columns))]
  })
  const more = list.notListed > 0 ? [`and ${count(list.notListed, 'more stream')}: name one of their names`] : []
  const callers = list.callers.length > 0 ? ['callers', ...list.callers.map(describeCaller)] : []
  return `${[...sockets, ...more, ...callers].join('\n')}\n`
}

function describeSocket({ path, state, connections, streams, names }: ListedSocket): string {
  const load = [count(connections, 'connection'), count(streams, 'stream'), count(names, 'name')]
  return oneLine(`${path}: ${state}, ${load.join(', ')}`)
}

function describeCaller({ caller, pod, connections, streams, names, bytes }: ListedCaller): string {
  const load = [count(connections, 'connection'), count(streams, 'stream'), count(names, 'name')]
  return `  ${oneLine(withPod(caller, pod))}: ${load.join(', ')}, ${Math.ceil(bytes / 1024)} KiB`
}

function describeStream(stream: ListedStream, now: number, columns: number): string[] {
  const { method, pid, uid, subject, pod, node, names, subscriptions, since } = stream
  const who = [
    ...(node === '' ? [] : [`node "${node}"`]),
    ...(pid === undefined ? [] : [`pid ${pid}, uid ${uid}`]),
    ...(subject === undefined ? [] : [withPod(subject, pod)]),
  ]
  const caller = who.length === 0 ? 'a caller' : who.join(', ')
  const head = `  ${oneLine(caller)}: ${oneLine(method)} for ${formatAge(now - Date.parse(since))}`
  const states = subscriptions.map(stateOf)
  const rows = layOut(states.map(({ state }, index) => [state, nameOf(subscriptions[index])]))
  const lines = rows.flatMap((row, index) => {
    const detail = states[index]?.detail
    return detail === undefined ? [`    ${row}`] : [`    ${row}`, ...wrap(detail, columns, '      ')]
  })
  const more = names - subscriptions.length
  return [head, ...lines, ...(subscriptions.length > 0 && more > 0 ? [`    and ${count(more, 'more name')}`] : [])]
}

function withPod(subject: string, pod: string | undefined): string {
  return pod === undefined ? subject : `${subject} (${pod})`
}

/** `default` alone does not identify its owner. */
function nameOf(subscribed: SubscribedName | undefined): string {
  const { name = '', secret } = subscribed ?? {}
  return secret === undefined || secret === name ? name : `${name} (${secret})`
}

interface NameState {
  readonly state: string
  /** Printed on a separate line. */
  readonly detail?: string | undefined
}

function stateOf({ access, reason, current, sent, accepted, rejected }: SubscribedName): NameState {
  if (access !== 'granted') return { state: access, detail: reason }
  const before = accepted === undefined ? undefined : `it has ${short(accepted)}`
  if (sent !== undefined && sent === rejected)
    return { state: `rejected ${short(sent)}`, detail: before ?? 'it has accepted no other version on this stream' }
  if (current === undefined) return { state: 'no secret', detail: before }
  if (sent === undefined) return { state: 'not sent' }
  if (sent !== current) return { state: `behind ${short(sent)}`, detail: `the newest is ${short(current)}` }
  if (accepted === sent) return { state: `accepted ${short(sent)}` }
  return { state: `sent ${short(sent)}`, detail: before && `not answered yet: ${before}` }
}

const SHOWN_DIGITS = 12

function short(version: string): string {
  return version.slice(0, SHOWN_DIGITS)
}

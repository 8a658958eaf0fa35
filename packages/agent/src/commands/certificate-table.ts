/** The table of `livery certs`, for a terminal of any width. */
import type { DumpedFailure } from '../admin/config-dump.ts'
import { formatAge } from '../observe/format-age.ts'
import { expiryOf, type Listed, nameOf } from './listed-certificates.ts'
import { distance, layOut, when, wrap } from './text-layout.ts'

const WIDE_HEADER = ['IDENTITY', 'STATE', 'SERIAL', 'EXPIRES', 'LASTS', 'NEXT ROTATION']
const NARROW_HEADER = ['STATE', 'EXPIRES', 'ROTATION', 'IDENTITY']
/** Width of the lines below a row that say what is wrong with it. */
const REASON_WIDTH = 80

/**
 * One row per identity and per name of files, and below it what is wrong. A terminal too narrow for all columns loses the
 * serial numbers, the dates and how long each lasts; one too narrow for the rest gets a block of lines per row.
 */
export function certificateTable(
  certificates: readonly Listed[],
  now: number,
  columns: number = Number.POSITIVE_INFINITY,
): string {
  const forms = [
    () => layOut([WIDE_HEADER, ...certificates.map(each => wideCells(each, now))]),
    () => layOut([NARROW_HEADER, ...certificates.map(each => narrowCells(each, now))]),
  ]
  for (const form of forms) {
    const [header = '', ...rows] = form()
    if (header.length <= columns && rows.every(row => row.length <= columns)) {
      const blocks = certificates.flatMap((each, index) => [rows[index] ?? '', ...reasonLines(each, now, columns)])
      return `${[header, ...blocks].join('\n')}\n`
    }
  }
  return `${certificates.flatMap(each => block(each, now, columns)).join('\n')}\n`
}

function wideCells(each: Listed, now: number): string[] {
  const serial = 'name' in each ? '-' : (each.certChain[0]?.serialNumber ?? '-')
  const cell = (time: string | undefined) => (time === undefined ? '-' : when(time, now))
  return [nameOf(each), each.state, serial, cell(expiryOf(each)), lasts(each, now), cell(renewalOf(each))]
}

function narrowCells(each: Listed, now: number): string[] {
  const cell = (time: string | undefined) => (time === undefined ? '-' : distance(time, now))
  return [each.state, cell(expiryOf(each)), cell(renewalOf(each)), nameOf(each)]
}

function block(each: Listed, now: number, columns: number): string[] {
  const [state = '', expires = '', rotation = ''] = narrowCells(each, now)
  const lasting = lasts(each, now)
  const facts = [
    state,
    ...(expires === '-' ? [] : [`expires ${expires}`]),
    ...(lasting === '-' ? [] : [`lasts ${lasting}`]),
    ...(rotation === '-' ? [] : [`rotation ${rotation}`]),
  ]
  return [...wrap(nameOf(each), columns, ''), ...wrap(facts.join(', '), columns), ...reasonLines(each, now, columns)]
}

/** How long it would be served if the CA stopped now. */
function lasts(each: Listed, now: number): string {
  const until = 'name' in each ? undefined : each.lastsUntil
  return until === undefined ? '-' : formatAge(Date.parse(until) - now)
}

function renewalOf(each: Listed): string | undefined {
  return 'name' in each ? undefined : each.renewAt
}

function reasonLines(each: Listed, now: number, columns: number): string[] {
  const { reason } = each
  const width = Math.min(columns, REASON_WIDTH)
  const failure = 'lastFailure' in each ? each.lastFailure : undefined
  return [
    ...(reason === undefined ? [] : wrap(reason, width)),
    ...(failure ? wrap(describeFailure(failure, now), width) : []),
  ]
}

/** How long it has failed, and when the CA is asked again. The row shows when the certificate ends. */
function describeFailure({ since, nextTry }: DumpedFailure, now: number): string {
  const next = nextTry === undefined ? 'an attempt is queued or in flight' : `next try ${distance(nextTry, now)}`
  return `failing for ${formatAge(now - Date.parse(since))}, ${next}`
}

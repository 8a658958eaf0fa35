/** `livery certs`: the identities of the running agent, and the secrets in files that are streamed, as a table. */
import { oneLine } from '@livery/core'
import type { ConfigDump, DumpedCertificate, DumpedFileSecret, DumpedIdentity } from '../admin/config-dump.ts'
import type { ConfigSources } from '../config/layers.ts'
import { formatAge } from '../observe/ledger-text.ts'
import { askAdmin, firstLine, printableJson } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'

export async function showCertificates(
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const { status, body } = await askAdmin('/config_dump', sources)
  if (status !== 200) {
    terminal.err(`livery: the agent answered ${status}: ${firstLine(body)}\n`)
    return EXIT.failed
  }
  const certificates = readCertificates(body)
  if (!certificates) {
    terminal.err(
      'livery: the program that answers there is not an agent of Livery: name the address of its admin endpoint with --admin\n',
    )
    return EXIT.failed
  }
  if (json) terminal.out(`${printableJson(certificates)}\n`)
  else terminal.out(certificateTable(certificates, Date.now(), terminal.columns))
  return EXIT.ok
}

/** An identity of the dump, with the reason of its state in a separate field. */
export interface ListedIdentity extends DumpedIdentity {
  /** Of `Unavailable`. */
  readonly reason?: string
}

/** A secret in files, as {@link ListedIdentity}. */
export interface ListedFileSecret extends DumpedFileSecret {
  readonly reason?: string
}

type Listed = ListedIdentity | ListedFileSecret

/** Another program may listen there: Envoy has a `/config_dump` too. */
function readCertificates(body: string): readonly Listed[] | undefined {
  try {
    const { certificates, files = [] } = JSON.parse(body) as Partial<ConfigDump>
    return Array.isArray(certificates) ? [...certificates.map(listed), ...files.map(withReason)] : undefined
  } catch {
    return undefined
  }
}

/** The dump has ztunnel's `Unavailable: <reason>`; here they are apart. */
function withReason<Dumped extends { readonly state: string }>(dumped: Dumped): Dumped & { readonly reason?: string } {
  const [state = '', ...reason] = dumped.state.split(': ')
  return { ...dumped, state, ...(reason.length > 0 && { reason: reason.join(': ') }) }
}

/** Decimal serial numbers of the dump are here as in `livery explain`. */
function listed(identity: DumpedIdentity): ListedIdentity {
  return {
    ...withReason(identity),
    certChain: identity.certChain.map(withHex),
    ...(identity.rootCerts && { rootCerts: identity.rootCerts.map(withHex) }),
  }
}

function withHex(certificate: DumpedCertificate): DumpedCertificate {
  return { ...certificate, serialNumber: hexOf(certificate.serialNumber) }
}

const WIDE_HEADER = ['IDENTITY', 'STATE', 'SERIAL', 'EXPIRES', 'NEXT ROTATION']
const NARROW_HEADER = ['STATE', 'EXPIRES', 'ROTATION', 'IDENTITY']
/** Of the lines under a row that say why its certificate cannot be issued or read, or why that one is not good for all. */
const REASON_WIDTH = 80

/**
 * One row per identity and per name of files, and below it the reason where the CA or the files fail, or the warning. A
 * terminal that is too narrow for all columns gets no serial numbers and no dates.
 */
export function certificateTable(
  certificates: readonly Listed[],
  now: number,
  columns: number = Number.POSITIVE_INFINITY,
): string {
  const wide = layOut(
    WIDE_HEADER,
    certificates.map(certificate => wideCells(certificate, now)),
  )
  const fits = wide.every(line => line.length <= columns)
  const rows = fits
    ? wide
    : layOut(
        NARROW_HEADER,
        certificates.map(certificate => narrowCells(certificate, now)),
      )
  const lines = rows.flatMap((row, index) => {
    const each = certificates[index - 1]
    const reason = each?.reason ?? (each && 'warning' in each ? each.warning : undefined)
    return reason === undefined ? [row] : [row, ...wrap(oneLine(reason), Math.min(columns, REASON_WIDTH) - 2)]
  })
  return `${lines.join('\n')}\n`
}

function wideCells(each: Listed, now: number): string[] {
  const { name, serialNumber = '-', expirationTime, renewAt } = factsOf(each)
  const cell = (time: string | undefined) => (time === undefined ? '-' : when(time, now))
  return [name, each.state, serialNumber, cell(expirationTime), cell(renewAt)]
}

function narrowCells(each: Listed, now: number): string[] {
  const { name, expirationTime, renewAt } = factsOf(each)
  const cell = (time: string | undefined) => (time === undefined ? '-' : distance(time, now))
  return [each.state, cell(expirationTime), cell(renewAt), name]
}

interface Facts extends Partial<Pick<DumpedCertificate, 'serialNumber' | 'expirationTime'>> {
  readonly name: string
  readonly renewAt?: string | undefined
}

function factsOf(each: Listed): Facts {
  if ('name' in each) return each
  const { identity: name, certChain, renewAt } = each
  return { ...certChain[0], name, renewAt }
}

function layOut(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [header, ...rows.map(cells => cells.map(cell => oneLine(String(cell))))]
  const widths = header.map((_, column) => Math.max(...all.map(cells => cells[column]?.length ?? 0)))
  return all.map(cells =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map(each => `  ${each}`)
}

/** As Envoy's `/certs` prints it: lower-case hexadecimal, whole bytes. */
function hexOf(serialNumber: string): string {
  const hex = BigInt(serialNumber).toString(16)
  return hex.length % 2 === 0 ? hex : `0${hex}`
}

function when(time: string, now: number): string {
  return `${time.replace(/\.\d+Z$/, 'Z')} (${distance(time, now)})`
}

function distance(time: string, now: number): string {
  const ms = Date.parse(time) - now
  return ms >= 0 ? `in ${formatAge(ms)}` : `${formatAge(-ms)} ago`
}

/** `livery certs`: the identities of the running agent as a table. */
import { oneLine, scrub } from '@livery/core'
import type { ConfigDump, DumpedIdentity } from '../admin/config-dump.ts'
import type { ConfigSources } from '../config/layers.ts'
import { formatAge } from '../observe/ledger-text.ts'
import { askAdmin, MAX_BODY, printableJson } from './admin-client.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'

export async function showCertificates(
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const { status, body } = await askAdmin('/config_dump', sources)
  if (status !== 200) {
    terminal.err(`livery: the agent answered ${status}: ${scrub(body, { maxLength: MAX_BODY })}\n`)
    return EXIT.failed
  }
  const certificates = readCertificates(body)
  if (!certificates) {
    terminal.err(
      'livery: what answers there is no agent of Livery: name the address of its admin endpoint with --admin\n',
    )
    return EXIT.failed
  }
  if (json) terminal.out(`${printableJson(certificates)}\n`)
  else terminal.out(certificateTable(certificates, Date.now()))
  return EXIT.ok
}

/** Another program may listen there: Envoy has a `/config_dump` too. */
function readCertificates(body: string): readonly DumpedIdentity[] | undefined {
  try {
    const { certificates } = JSON.parse(body) as Partial<ConfigDump>
    return Array.isArray(certificates) ? certificates : undefined
  } catch {
    return undefined
  }
}

const HEADER = ['IDENTITY', 'STATE', 'SERIAL', 'EXPIRES', 'NEXT ROTATION']

/** One line an identity. Serial numbers as Envoy's `/certs` and `livery explain` print them: lower-case hexadecimal, whole bytes. */
export function certificateTable(certificates: readonly DumpedIdentity[], now: number): string {
  const rows = certificates.map(({ identity, state, certChain, renewAt }) => {
    const [leaf] = certChain
    return [
      identity,
      state,
      leaf ? hexOf(leaf.serialNumber) : '-',
      leaf ? when(leaf.expirationTime, now) : '-',
      renewAt === undefined ? '-' : when(renewAt, now),
    ].map(cell => oneLine(String(cell)))
  })
  const widths = HEADER.map((title, column) => Math.max(title.length, ...rows.map(row => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]): string => {
    return cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd()
  }
  return `${[HEADER, ...rows].map(line).join('\n')}\n`
}

function hexOf(serialNumber: string): string {
  const hex = BigInt(serialNumber).toString(16)
  return hex.length % 2 === 0 ? hex : `0${hex}`
}

function when(time: string, now: number): string {
  const ms = Date.parse(time) - now
  const distance = ms >= 0 ? `in ${formatAge(ms)}` : `${formatAge(-ms)} ago`
  return `${time.replace(/\.\d+Z$/, 'Z')} (${distance})`
}

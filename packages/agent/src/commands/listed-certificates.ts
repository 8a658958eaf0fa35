/** The identities and names of files of the running agent, as the commands show them: read from its `/config_dump`. */
import type { ConfigDump, DumpedCertificate, DumpedFileSecret, DumpedIdentity } from '../admin/config-dump.ts'
import type { ConfigSources } from '../config/layers.ts'
import { configDumpForm } from './admin-answers.ts'
import { readAdmin } from './admin-client.ts'

/** An identity of the dump, with hexadecimal serial numbers. */
export interface ListedIdentity extends Omit<DumpedIdentity, 'problem'> {
  /** What is wrong with it, and why, as the agent judges it. */
  readonly reason?: string
}

/** A secret in files, with the reason of its state in a separate field. */
interface ListedFileSecret extends DumpedFileSecret {
  readonly reason?: string
}

export type Listed = ListedIdentity | ListedFileSecret

/** Rejects with an `Error` where no agent answers. */
export async function listCertificates(sources: ConfigSources): Promise<readonly Listed[]> {
  const { certificates, files = [] } = await readAdmin<ConfigDump>('/config_dump', configDumpForm, sources)
  return [...certificates.map(listed), ...files.map(withReason)]
}

export function nameOf(each: Listed): string {
  return 'name' in each ? each.name : each.identity
}

/** RFC 3339; `undefined` for roots, and until there is a certificate. */
export function expiryOf(each: Listed): string | undefined {
  return 'name' in each ? each.expirationTime : each.certChain[0]?.expirationTime
}

/** Sorts those without a certificate last: they have nothing to expire. */
export function bySoonestExpiry(a: Listed, b: Listed): number {
  return expiryMs(a) - expiryMs(b)
}

function expiryMs(each: Listed): number {
  const time = expiryOf(each)
  return time === undefined ? Number.MAX_VALUE : Date.parse(time)
}

/** Splits the dump's `Unavailable: <reason>`. */
function withReason(dumped: DumpedFileSecret): ListedFileSecret {
  const [state = '', ...reason] = dumped.state.split(': ')
  return { ...dumped, state, ...(reason.length > 0 && { reason: reason.join(': ') }) }
}

/** Converts the decimal serial numbers of the dump to the form of `livery explain`. */
function listed({ problem, ...identity }: DumpedIdentity): ListedIdentity {
  return {
    ...identity,
    ...(problem !== undefined && { reason: problem }),
    certChain: identity.certChain.map(withHex),
    ...(identity.rootCerts && { rootCerts: identity.rootCerts.map(withHex) }),
  }
}

function withHex(certificate: DumpedCertificate): DumpedCertificate {
  return { ...certificate, serialNumber: hexOf(certificate.serialNumber) }
}

/** As Envoy's `/certs` prints it: lower-case hexadecimal, whole bytes. */
function hexOf(serialNumber: string): string {
  const hex = BigInt(serialNumber).toString(16)
  return hex.length % 2 === 0 ? hex : `0${hex}`
}

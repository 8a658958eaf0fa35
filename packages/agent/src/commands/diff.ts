/** `livery diff`: compares the certificates and roots that an Envoy serves with those that the running agent holds. */
import { X509Certificate } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isFileName } from '@livery/core/file-secrets'
import type { ConfigDump } from '../admin/config-dump.ts'
import type { TrustStatus } from '../admin/routes.ts'
import type { ConfigSources } from '../config/layers.ts'
import { formatListenAddress } from '../schema/values.ts'
import { configDumpForm, trustForm } from './admin-answers.ts'
import { readAdmin } from './admin-client.ts'
import { type EnvoySecret, parseEnvoyAdmin, readEnvoySecrets } from './envoy-secrets.ts'
import { EXIT } from './exit-code.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { layOut, printableJson, when, wrap } from './text-layout.ts'

/** One secret of Envoy, compared. */
export interface Compared {
  /** The name under which Envoy has it. */
  readonly name: string
  /**
   * `other`: its version differs from the agent's. `unknown`: the agent holds nothing for it. `waiting`: Envoy has no answer.
   * `files`: the agent reads it from files, and does not list their content. `unreadable`: Envoy's text is not a certificate.
   */
  readonly state: 'same' | 'other' | 'unknown' | 'waiting' | 'files' | 'unreadable'
  /** The identity of a certificate. */
  readonly identity?: string
  readonly detail?: string
}

/** The certificates and roots that the agent holds. */
interface Held {
  /** The newest leaf of each identity. */
  readonly leaves: ReadonlyMap<string, X509Certificate>
  /** Fingerprints of the roots, by trust domain, the agent's own first. */
  readonly roots: ReadonlyMap<string, ReadonlySet<string>>
  /** Roots that only one identity has count too. */
  readonly anyRoot: ReadonlySet<string>
}

/** Longer than a push takes. */
const PUSH_MS = 1_000

/** Resolves with the exit code: 1 if Envoy has another version of anything, or waits for it. */
export async function compareWithEnvoy(
  { envoyAdmin }: { readonly envoyAdmin: string },
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const address = parseEnvoyAdmin(envoyAdmin)
  const look = async () => {
    const secrets = await readEnvoySecrets(address)
    const held = await readHeld(sources)
    return secrets.map(secret => compare(secret, held))
  }
  let compared = await look()
  if (compared.some(isWrong)) {
    // A renewal between the two answers, or a push on its way, is not a difference.
    await sleep(PUSH_MS)
    compared = await look()
  }
  if (compared.length === 0)
    throw new Error(
      `Envoy at ${formatListenAddress(address)} has no secret from SDS, and waits for none. Its configuration names none, or no cluster needs one yet`,
    )
  terminal.out(json ? `${printableJson(compared)}\n` : describe(compared, terminal.columns))
  return compared.some(isWrong) ? EXIT.failed : EXIT.ok
}

function isWrong({ state }: Compared): boolean {
  return state !== 'same' && state !== 'files'
}

function describe(compared: readonly Compared[], columns = Number.POSITIVE_INFINITY): string {
  const rows = layOut(compared.map(({ state, name, identity = '' }) => [state, name, identity]))
  const lines = rows.flatMap((row, index) => {
    const detail = compared[index]?.detail
    return detail === undefined ? [row] : [row, ...wrap(detail, columns)]
  })
  return `${lines.join('\n')}\n`
}

async function readHeld(sources: ConfigSources): Promise<Held> {
  const { certificates } = await readAdmin<ConfigDump>('/config_dump', configDumpForm, sources)
  const { trustDomains } = await readAdmin<TrustStatus>('/trust', trustForm, sources)
  const roots = new Map(
    trustDomains.map(each => [each.trustDomain, new Set(each.roots.map(({ fingerprint }) => fingerprint))]),
  )
  const ownRoots = new Set(certificates.flatMap(({ rootCerts }) => rootCerts.map(({ pem }) => pem)))
  return {
    leaves: new Map(
      certificates.flatMap(({ identity, certChain: [leaf] }) =>
        parse(leaf?.pem).map(certificate => [identity, certificate] as const),
      ),
    ),
    roots,
    anyRoot: new Set(
      [...roots.values()].flatMap(each => [...each]).concat([...ownRoots].flatMap(pem => parse(pem).map(print))),
    ),
  }
}

const LOOK = 'Look at: livery streams'

function compare(secret: EnvoySecret, held: Held): Compared {
  const { name } = secret
  if (isFileName(name)) return { name, state: 'files' }
  switch (secret.kind) {
    case 'certificate':
      return { name, ...compareLeaf(secret.leaf, held) }
    case 'roots':
      return { name, ...compareRoots(name, secret.roots, held) }
    case 'unreadable':
      return { name, state: 'unreadable', detail: `Envoy has a certificate here that cannot be read. ${LOOK} ${name}` }
    case 'waiting':
      return { name, state: 'waiting', detail: `Envoy has asked and has no answer. ${LOOK} ${name}` }
    default:
      return { name, state: 'unknown', detail: 'it is neither a certificate nor roots' }
  }
}

function compareLeaf(leaf: X509Certificate, { leaves }: Held): Omit<Compared, 'name'> {
  const identity = /(?:^|, )URI:(spiffe:\/\/[^,\s]+)/.exec(leaf.subjectAltName ?? '')?.[1] ?? ''
  const own = leaves.get(identity)
  if (own && print(own) === print(leaf)) return { state: 'same', identity }
  const served = `Envoy serves serial ${serial(leaf)}, which ends ${end(leaf)}`
  if (!own) {
    const remedy = 'Ask the agent that serves this Envoy (--admin), or look at: livery certs'
    return { state: 'unknown', identity, detail: `${served}; the agent holds no certificate for it. ${remedy}` }
  }
  const newest = `the agent holds serial ${serial(own)}, which ends ${end(own)}`
  return { state: 'other', identity, detail: `${served}; ${newest}. Look at: livery streams ${identity}` }
}

function compareRoots(
  name: string,
  roots: Extract<EnvoySecret, { kind: 'roots' }>['roots'],
  held: Held,
): Omit<Compared, 'name'> {
  const details = [...roots].flatMap(([named, certificates]) => {
    const trustDomain = named === '' ? trustDomainNamed(name, held) : named
    const served = new Set(certificates.map(print))
    const missing = [...(held.roots.get(trustDomain) ?? [])].filter(root => !served.has(root))
    const extra = [...served].filter(root => !held.anyRoot.has(root))
    return [
      ...(missing.length > 0 ? [`Envoy lacks ${shortened(missing)} of ${trustDomain}`] : []),
      ...(extra.length > 0 ? [`Envoy trusts ${shortened(extra)}, which the agent does not hold`] : []),
    ]
  })
  if (details.length === 0) return { state: 'same' }
  return { state: 'other', detail: `${details.join('; ')}. Look at: livery trust status` }
}

/** `spiffe://other.example` names its own domain; every other name of roots means the agent's. */
function trustDomainNamed(name: string, { roots }: Held): string {
  const named = name.startsWith('spiffe://') ? name.slice('spiffe://'.length) : ''
  return roots.has(named) ? named : (roots.keys().next().value ?? '')
}

const SHOWN_DIGITS = 16

function shortened(fingerprints: readonly string[]): string {
  return `the root${fingerprints.length === 1 ? '' : 's'} ${fingerprints.map(each => each.slice(0, SHOWN_DIGITS)).join(', ')}`
}

/** SHA-256 of the DER, hex, as `/trust` has it. */
function print(certificate: X509Certificate): string {
  return certificate.fingerprint256.replaceAll(':', '').toLowerCase()
}

function serial(certificate: X509Certificate): string {
  return certificate.serialNumber.toLowerCase()
}

function end(certificate: X509Certificate): string {
  return when(certificate.validToDate.toISOString(), Date.now())
}

/** `pem` is base64 of the text. Empty for a text that is not a certificate: the others are compared. */
function parse(pem = ''): X509Certificate[] {
  try {
    return [new X509Certificate(Buffer.from(pem, 'base64'))]
  } catch {
    return []
  }
}

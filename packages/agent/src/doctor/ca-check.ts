/** Asks the CA for one certificate, as the agent would: is it reachable, does it take the token and sign, is its clock right. */
import { X509Certificate } from 'node:crypto'
import { nodeCertificateVerifier } from '@livery/core'
import {
  type CAClient,
  CAError,
  type Clock,
  derToPem,
  type IssuedCertificate,
  type KeyType,
  scrub,
} from '@livery/core/plugin'
import { nativeCertificateVerifier } from '@livery/native-keygen'
import { createCAClient, describeCA } from '../ca/create-ca-client.ts'
import { signableKeyType } from '../config/ca-section.ts'
import type { ConfiguredIdentity } from '../config/identities.ts'
import type { Config, LoadedConfig } from '../config/load.ts'
import { CLOCK_REMEDY, clockDifference, clockText, MAX_BACKDATE_MS } from '../diagnosis/ca-clock.ts'
import { chooseKeyGenerator } from '../life/choose-key-generator.ts'
import { createLogger } from '../observe/logger.ts'
import { PluginCounters } from '../observe/plugin-counters.ts'
import { Registry } from '../observe/prometheus.ts'
import { ConfigError, describeConfigError } from '../schema/config-error.ts'
import { type Finding, ok, skipped, wrong } from './finding.ts'

/** The CA's answer. */
export interface CAResult {
  readonly findings: readonly Finding[]
  /** The code of its refusal; `undefined` if it issued, or was not asked. */
  readonly code?: CAError['code']
  readonly hasIssued: boolean
}

const TIMEOUT_MS = 15_000

/** Costs the CA one certificate, for the first configured identity. */
export async function askCA(loaded: LoadedConfig, clock: Clock): Promise<CAResult> {
  const { ca, identities, kubernetes } = loaded.config
  const subject = describeCA(ca)
  const [identity] = identities
  if (ca.plugin.name === 'embedded')
    return unasked(
      skipped('ca', subject, 'it is in the process of the agent: there is nothing to reach, and no other clock'),
    )
  if (!identity) {
    const reason = kubernetes ? 'the identities come from pods' : 'the configuration lists no identity'
    return unasked(skipped('ca', subject, `it was not asked: ${reason}. Run: livery ca test`))
  }
  try {
    await using stack = new AsyncDisposableStack()
    const asked = await request(loaded, identity, { clock, stack })
    const clockFinding = checkClock(subject, asked)
    return { findings: [checkAnswer(subject, asked), clockFinding], hasIssued: true }
  } catch (error) {
    return refused(subject, error)
  }
}

function unasked(finding: Finding): CAResult {
  return { findings: [finding], hasIssued: false }
}

interface Answered {
  readonly identity: Pick<ConfiguredIdentity, 'id'> & Partial<Pick<ConfiguredIdentity, 'wish'>>
  readonly issued: IssuedCertificate
  readonly roots: readonly string[]
  readonly publicKeyDer: Uint8Array
  /** Milliseconds since the epoch, in the middle of the call. */
  readonly at: number
  /** The key exchange groups of the connections to the CA. */
  readonly groups: ReadonlySet<string>
}

interface Asked extends Answered {
  readonly config: Config
}

async function request(
  loaded: LoadedConfig,
  identity: ConfiguredIdentity,
  { clock, stack }: { readonly clock: Clock; readonly stack: AsyncDisposableStack },
): Promise<Asked> {
  const { config } = loaded
  const { logger } = stack.use(await createLogger({ level: 'silent', format: 'json' }))
  const groups = new Set<string>()
  const connected = (group: string): void => void groups.add(group)
  const parts = { clock, logger, counters: new PluginCounters(new Registry()), connected }
  const client = await createCAClient(loaded, parts, stack)
  const generator = chooseKeyGenerator(config, () => {})
  const { keyType = config.keyType, ttlSeconds = config.ttl / 1000, dnsNames = [] } = identity.wish ?? {}
  const type: KeyType = signableKeyType(config.ca, keyType)
  const key = await generator.generate({ type, identity: identity.id, dnsNames })
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const before = clock.now()
  const issued = await client.issue({
    identity: identity.id,
    ...(dnsNames.length > 0 && { dnsNames }),
    ttlSeconds,
    ...(identity.tokenFile !== undefined && { tokenFile: identity.tokenFile }),
    signal,
    csr: async () => ({ der: key.csrDer, pem: derToPem(key.csrDer, 'CERTIFICATE REQUEST') }),
  })
  const at = (before + clock.now()) / 2
  key.privateKeyPem.fill(0)
  const roots = [...(issued.roots ?? []), ...(await rootsOf(client, signal))]
  return { config, identity, issued, roots, publicKeyDer: key.publicKeyDer, at, groups }
}

async function rootsOf(client: CAClient, signal: AbortSignal): Promise<readonly string[]> {
  // The agent uses the roots that came with the certificate until the list is available.
  return (await client.trustBundle?.({ signal }).catch(() => [])) ?? []
}

/** Checks as the agent does, at the CA's time: the clock is a separate finding. Wipes a key that came with the answer. */
export function checkAnswer(subject: string, { identity, issued, roots, publicKeyDer, at, groups }: Answered): Finding {
  const exchange = groups.size === 0 ? '' : `; key exchange: ${Array.from(groups, describeGroup).join(', ')}`
  const text = `it was asked for a test certificate for ${identity.id}, and issued it; that was thrown away${exchange}`
  const { privateKey } = issued
  try {
    if (roots.length === 0) return ok('ca', subject, text)
    const notBefore = leafOf(issued).validFromDate.getTime()
    const verifier = nativeCertificateVerifier ?? nodeCertificateVerifier
    verifier.verify(issued.chain, {
      identity: identity.id,
      ...(privateKey
        ? { key: { privateKeyPem: privateKey } }
        : { key: { publicKeyDer }, dnsNames: identity.wish?.dnsNames ?? [] }),
      anchors: roots.map(pem => new X509Certificate(pem)),
      now: Math.max(notBefore, Math.min(at, notBefore + MAX_BACKDATE_MS)),
    })
    return ok('ca', subject, text)
  } catch (error) {
    return wrong(
      'ca',
      subject,
      scrub(error),
      'Correct it at the CA; livery ca test shows all that the agent asks of it',
    )
  } finally {
    privateKey?.fill(0)
  }
}

function describeGroup(group: string): string {
  return group.includes('MLKEM') ? `${group}, post-quantum` : `${group}, not post-quantum`
}

function leafOf({ chain: [leaf = ''] }: IssuedCertificate): X509Certificate {
  return new X509Certificate(leaf)
}

function checkClock(subject: string, { issued, config, at }: Asked): Finding {
  // A source that brings its key has not signed just now.
  if (issued.privateKey) return skipped('clock', subject, 'it gives certificates that were signed at another time')
  const { validFromDate, validToDate } = leafOf(issued)
  const dates = { notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() }
  const difference = clockDifference(dates, { at, ttlMs: config.ttl })
  if (!difference) return ok('clock', subject, "it agrees with the CA's clock")
  return wrong('clock', subject, clockText(difference), CLOCK_REMEDY)
}

const REMEDIES: Readonly<Partial<Record<CAError['code'], string>>> = {
  unauthenticated: 'Look at the findings about tokens below, and at whom the CA trusts to issue them',
  denied: 'Allow this identity at the CA, or correct it in the configuration',
  'rate-limited': 'Raise the quota at the CA, or wait',
  unavailable: 'Start the CA, correct its address under ca, or open the way to it',
  timeout: 'Look whether the CA is busy, or waits for somebody to approve',
}

/** OpenSSL's wording, about the certificate of the CA's server. */
const CLOCK_FAULT = /certificate (?:is not yet valid|has expired)/

function refused(subject: string, error: unknown): CAResult {
  const code = error instanceof CAError ? error.code : 'unavailable'
  const isTimeout = error instanceof Error && error.name === 'TimeoutError'
  const reason = error instanceof ConfigError ? describeConfigError(error) : error
  const isLocal = error instanceof CAError && error.local
  const asked = isLocal ? 'The CA was not asked.' : 'It was asked for one test certificate.'
  const text = isTimeout ? `it did not answer within ${TIMEOUT_MS / 1000} s` : scrub(reason)
  const remedy = CLOCK_FAULT.test(text)
    ? "Compare the clock here with the CA's (timedatectl), and look at the dates of its own certificate"
    : isLocal
      ? 'Correct on this node what the message names'
      : (REMEDIES[code] ?? 'Run livery ca test with this configuration: it shows case by case what fails')
  return {
    findings: [wrong('ca', subject, `${code}: ${text.replace(/\.?$/, '.')} ${asked}`, remedy)],
    code,
    hasIssued: false,
  }
}

/** The events of the ledger in plain words, for `livery explain`. */
import { remedyOf } from '../diagnosis/remedies.ts'
import { formatAge } from './format-age.ts'
import type { LedgerEntry, LedgerEvent } from './ledger.ts'

/** One event as a sentence without its time. */
export function describeEvent(event: LedgerEvent): string {
  switch (event.kind) {
    case 'asked':
      return `asked for by ${event.by}`
    case 'refused':
      return `refused to ${event.by}: ${event.reason}`
    case 'csr-sent':
      return `asked the CA for a certificate (${REASONS[event.reason]})`
    case 'ca-error':
      return `${event.local ? 'the CA was not asked, for a cause on this node' : 'the CA did not issue'} (${event.code}): ${event.message}`
    case 'retry-planned':
      return `next try planned for ${iso(event.at)}`
    case 'clock-jumped':
      return `${JUMPED[event.how]} ${formatAge(event.ms)}: roots are asked for again, then certificates by what is left of them`
    case 'ca-down':
      return `the CA does not answer: until it does, one request at a time probes it. ${remedyOf('ca-down', 0)}`
    case 'ca-back':
      return `the CA answers again, after an outage since ${iso(event.downSince)}`
    case 'shared-failure':
      return `all who ask fail with ${event.failure}: until one succeeds, one request at a time probes the cause. ${remedyOf(event.failure, 0)}`
    case 'shared-failure-over':
      return `one succeeded, so all that failed with ${event.failure} since ${iso(event.since)} are tried again`
    case 'ttl-lowered':
      return `the CA refused a lifetime of ${event.fromSeconds} s as too long: ${event.toSeconds} s are asked for from now on. Set ttl to what the CA gives.`
    case 'held':
      return `held back until ${iso(event.until)}: ${HELD[event.reason]}`
    case 'issued':
      return `issued: serial ${event.serialNumber}, valid until ${iso(event.notAfter)}, renewal planned for ${iso(event.renewAt)}`
    case 'restored':
      return `${RESTORED[event.from]}: serial ${event.serialNumber}, valid until ${iso(event.notAfter)}, renewal planned for ${iso(event.renewAt)}`
    case 'not-restored':
      return `not taken from the disk, the CA is asked: ${event.reason}`
    case 'preflight-failed':
      return event.isServed
        ? `served, although clients would refuse it with the roots that they are served, for want of a better one: ${event.reason}`
        : `not served, the one in use stays: clients would refuse it with the roots that they are served: ${event.reason}`
    case 'revoked':
      return `revoked, peers refuse it: another is asked for now: ${event.reason}`
    case 'not-stored':
      return `the store failed, which will be tried again; what is served is not affected: ${event.reason}`
    case 'roots-changed':
      return `trust bundle changed: ${event.roots} ${event.roots === 1 ? 'root' : 'roots'}, version ${short(event.version)}`
    case 'roots-rejected':
      return `roots of ${event.source} were left out (${event.count}): ${event.reason}`
    case 'roots-unavailable':
      return `${event.source} has no usable list of roots, what it listed before stays in force: ${event.reason}`
    case 'root-phase':
      return `root ${short(event.fingerprint)} ${PHASES[event.phase]}: ${event.reason}`
    case 'crl-changed':
      return `revocation lists served: ${event.lists}${describeUncovered(event.uncovered)}`
    case 'crl-unavailable':
      return `the revocation lists in ${event.source} cannot be used, the last ones stay in force: ${event.reason}`
    case 'removed':
      return `no longer named by the configuration or a pod: held until ${iso(event.until)}`
    case 'kept':
      return 'named again by the configuration or a pod: kept'
    case 'no-room':
      return `not taken on: maxIdentities (${event.maxIdentities}) are held, and each is configured or in use`
    case 'read-from-files':
      return `read from its files: ${fileContent(event)}`
    case 'files-unusable':
      return `${event.reason}${event.isServed ? ' What was read before stays in use.' : ''}`
    case 'ending':
      return `the certificate in the files ends at ${iso(event.notAfter)}, and no newer one was written`
    case 'withdrawn':
      return `withdrawn: ${WITHDRAWN[event.reason]}`
    case 'pushed':
      return `pushed to ${event.to}, version ${short(event.version)}`
    case 'acked':
      return `accepted (ACK) by ${event.by}, version ${short(event.version)}`
    case 'nacked':
      return `rejected (NACK) by ${event.by}, version ${short(event.version)}: ${event.detail}`
  }
}

function describeUncovered(fingerprints: readonly string[]): string {
  const [first, ...others] = fingerprints
  if (first === undefined) return ''
  const more = others.length > 0 ? ` and ${others.length} more` : ''
  return `; verifiers refuse all peers under the root ${first.slice(0, 12)}${more}, which has no list: add it to the file of crl under trust`
}

/** An event with its sentence, as the agent says it: one of another version may have events that this one does not know. */
export type ToldEntry = LedgerEntry & { readonly text: string }

/** The ledger with ages, oldest first, one line per event; a text of the CA that comes again is written once. */
export function describeLedger(entries: readonly ToldEntry[], now: number): string[] {
  const ages = entries.map(({ time }) => `${formatAge(now - time)} ago`)
  const width = Math.max(0, ...ages.map(age => age.length))
  const seen = new Set<string>()
  return entries.map(({ event, text: sentence, count = 1 }, index) => {
    const times = count > 1 ? `${count} times, last: ` : ''
    const text = event.kind === 'ca-error' && seen.has(event.message) ? sentence.replace(event.message, SAME) : sentence
    if (event.kind === 'ca-error') seen.add(event.message)
    return `${(ages[index] ?? '').padStart(width)}  ${times}${text}`
  })
}

const SAME = 'with the same text as above'

const REASONS = {
  first: 'the first',
  renewal: 'renewal is due',
  'on-demand': 'asked for on demand',
  'new-root': 'the CA has a new root',
} as const

const JUMPED = {
  forward: 'the machine slept, or its clock was set ahead, by',
  back: 'the clock was set back by',
  stopped: 'this process did not run for',
} as const

const RESTORED = {
  store: 'taken from the store, as the previous process left it',
  bootstrap: 'the bootstrap pair is served until the CA answers',
} as const

const WITHDRAWN = {
  expired: 'it expired before a new one came',
  forgotten: 'no longer wanted',
  idle: 'nobody has used it for a while',
  evicted: 'unused, and its room was needed for another',
} as const

const PHASES = {
  announcing: 'is announced',
  held: 'is held',
  trusted: 'is trusted by all, certificates under it are served',
  retiring: 'is retiring',
  removed: 'was removed',
} as const

const HELD = {
  'not-yet-valid': 'its notBefore is ahead of this clock',
  'root-announcing': 'its new root is announced, and clients have to know it first',
} as const

function iso(time: number): string {
  return new Date(time).toISOString()
}

function short(version: string): string {
  return version.slice(0, 12)
}

function fileContent({
  version,
  serialNumber,
  notAfter,
  skipped = 0,
}: Extract<LedgerEvent, { kind: 'read-from-files' }>): string {
  const parts = serialNumber === undefined ? [] : [`serial ${serialNumber}`]
  if (notAfter !== undefined) parts.push(`valid until ${iso(notAfter)}`)
  if (skipped > 0) parts.push(`${skipped} certificates cannot be parsed and are left out`)
  return [...parts, `version ${short(version)}`].join(', ')
}

/** The answer of `/explain`: what happened to a name, in plain words. */
import { ALL_BUNDLES, type IdentityEntry } from '@livery/core'
import { Diagnosis } from '../diagnosis/diagnosis.ts'
import type { LedgerEvent } from '../observe/agent-event.ts'
import { rowOf } from '../observe/event-table.ts'
import { type StateName, stateName } from '../observe/identity-text.ts'
import type { LedgerEntry } from '../observe/ledger.ts'
import type { ToldEntry } from '../observe/ledger-text.ts'
import type { Level } from '../observe/log-rate.ts'
import type { AdminSource } from './admin-source.ts'
import { type Answer, json, text } from './answer.ts'
import type { CpuShare } from './cpu-share.ts'
import { didYouMean } from './similar-name.ts'

/** The answer of `/explain`. */
export interface Explanation {
  readonly name: string
  /** Milliseconds since the epoch, to compute ages from. */
  readonly now: number
  /** As in `/config_dump` for an identity; `2 roots` for a trust bundle. */
  readonly state: string | undefined
  /** Oldest first; `text` is the event in plain words, `level` as in the log. */
  readonly entries: readonly (ToldEntry & { readonly level: Level })[]
}

export function explain(source: AdminSource, query: URLSearchParams, searches: CpuShare): Answer {
  const asked = query.get('name')
  if (!asked) return text(400, 'Add the name to explain: /explain?name=spiffe://…\n')
  const name = ledgerNameOf(source, asked)
  const entries = source.explain(name)
  const state = identityState(source.entry(name), entries) ?? bundleState(source, name)
  if (entries.length === 0 && state === undefined) return text(404, unknownName(source, asked, searches))
  const explanation: Explanation = {
    name,
    now: source.clock.now(),
    state,
    entries: entries.map(entry => ({ ...entry, ...describeEvent(entry.event) })),
  }
  return json(200, explanation)
}

function describeEvent(event: LedgerEvent): { readonly text: string; readonly level: Level } {
  const row = rowOf(event)
  return { text: row.sentence(event), level: row.level(event) }
}

/** Maps names that mean the same to every caller. A refused name has a ledger under its own text. */
function ledgerNameOf(source: AdminSource, asked: string): string {
  const { names, trustDomain } = source
  if (asked === names.all) return ALL_BUNDLES
  if (asked === names.root) return `spiffe://${trustDomain}`
  const files = source.fileNames?.get(asked)
  return files === undefined || source.explain(files).length === 0 ? asked : files
}

/** `Forgotten` if the ledger shows that it was held once. */
function identityState(entry: IdentityEntry | undefined, entries: readonly LedgerEntry[]): StateName | undefined {
  if (entry) return stateName(entry.state)
  const wasForgotten = entries.some(
    ({ event }) => event.kind === 'withdrawn' && event.reason !== 'expired' && event.reason !== 'deleted',
  )
  return wasForgotten ? stateName('forgotten') : undefined
}

/** `2 roots` if the name is a trust bundle. */
function bundleState(source: AdminSource, name: string): string | undefined {
  const bundle = source.bundles().find(each => each.identity === undefined && `spiffe://${each.trustDomain}` === name)
  return bundle && bundle.roots.length > 0
    ? `${bundle.roots.length} ${bundle.roots.length === 1 ? 'root' : 'roots'}`
    : undefined
}

/** Hints that need a look at all identities are left out while `searches` rests. */
export function unknownName(source: AdminSource, name: string, searches: CpuShare): string {
  const { names, trustDomain } = source
  if (name === names.root || name === `spiffe://${trustDomain}`)
    return `There is no trust bundle of ${trustDomain} yet: the CA has given no roots. ${searches.use(() => whyNoRoots(source)) ?? ''}\n`
  if (name === names.default) {
    return `${JSON.stringify(name)} means a different identity on each socket. Ask for the SPIFFE ID: livery certs lists them.\n`
  }
  const similar = searches.use(() => didYouMean(name, allNames(source))) ?? ''
  return `This agent does not know ${JSON.stringify(name.slice(0, 200))}: the configuration does not list it, and no caller has asked for it.${similar} livery certs lists the identities; for the trust bundle write spiffe://${trustDomain}.\n`
}

function whyNoRoots(source: AdminSource): string {
  const diagnosis = new Diagnosis(source)
  for (const entry of source.entries()) diagnosis.look(entry)
  const problem = diagnosis.serving().find(({ affected, code }) => affected.length > 0 || code === 'ca-down')
  if (!problem) return 'It has reported no error: livery certs shows what is asked of it.'
  const { what, reason } = problem
  return `${what}${reason === '' ? '.' : `: ${reason}`}`
}

/** All names that a caller of `/config_dump` sees too. */
function* allNames(source: AdminSource): Generator<string, void, undefined> {
  yield source.names.root
  for (const { trustDomain, identity } of source.bundles()) if (identity === undefined) yield `spiffe://${trustDomain}`
  yield* source.identities()
  if (source.fileNames) yield* source.fileNames.keys()
  for (const { name } of source.files()) yield name
}

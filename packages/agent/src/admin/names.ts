/** The answer of `/names`: what a person can ask about, for the completion of shells. */
import type { AdminSource } from './admin-source.ts'
import { type Answer, BUSY, text } from './answer.ts'
import type { CpuShare } from './cpu-share.ts'

/** More than anybody picks from; a longer prefix shows the rest. */
const MAX_NAMES = 1_000

/** The names that begin with `prefix`, one per line: identities, trust bundles, names that mean the same to every caller, files. */
export function names(source: AdminSource, query: URLSearchParams, searches: CpuShare): Answer {
  const found = searches.use(() => namesFrom(source, query.get('prefix') ?? ''))
  return found === undefined ? BUSY : text(200, found.join(''))
}

function namesFrom(source: AdminSource, prefix: string): string[] {
  const found: string[] = []
  for (const name of allNames(source)) {
    if (name.startsWith(prefix)) found.push(`${name}\n`)
    if (found.length === MAX_NAMES) break
  }
  return found
}

/** All that a caller of `/config_dump` sees, too. */
export function* allNames(source: AdminSource): Generator<string, void, undefined> {
  yield source.names.root
  for (const { trustDomain, identity } of source.bundles()) if (identity === undefined) yield `spiffe://${trustDomain}`
  yield* source.identities()
  if (source.fileNames) yield* source.fileNames.keys()
  for (const { name } of source.files()) yield name
}

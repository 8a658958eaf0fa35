/** The answer of `/names`: what a person can ask about, for the completion of shells. */
import type { AdminSource } from './admin-source.ts'
import { type Answer, text } from './answer.ts'

/** More than anybody picks from; a longer prefix shows the rest. */
const MAX_NAMES = 1_000

/** The names that begin with `prefix`, one per line: identities, trust bundles, names that mean the same to every caller, files. */
export function names(source: AdminSource, query: URLSearchParams): Answer {
  const prefix = query.get('prefix') ?? ''
  const found: string[] = []
  for (const name of allNames(source)) {
    if (name.startsWith(prefix)) found.push(`${name}\n`)
    if (found.length === MAX_NAMES) break
  }
  return text(200, found.join(''))
}

/** All that a caller of `/config_dump` sees, too. */
export function* allNames(source: AdminSource): Generator<string, void, undefined> {
  yield source.names.root
  for (const { trustDomain, identity } of source.bundles()) if (identity === undefined) yield `spiffe://${trustDomain}`
  yield* source.identities()
  if (source.fileNames) yield* source.fileNames.keys()
  for (const { name } of source.files()) yield name
}

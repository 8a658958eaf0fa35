/** The entries of `allow`: SPIFFE IDs and names of files, and patterns of both. */
import {
  type FilePattern,
  isFileName,
  parseFilePattern,
  parseSpiffePattern,
  type SpiffePattern,
  spiffePatternProblem,
} from '@livery/core'
import { isSpiffeId } from '@livery/core/plugin'
import { SdsServerError } from '../socket/sds-server-error.ts'

export interface AllowRules {
  readonly identities: readonly SpiffePattern[]
  readonly files: readonly FilePattern[]
}

/** Throws an `SdsServerError` (`invalid-config`) that names the entry. */
export function parseAllow(entries: readonly string[]): AllowRules {
  const files = entries.filter(isFileName)
  return {
    identities: entries.filter(entry => !files.includes(entry)).map(parseIdentities),
    files: files.map(parseFiles),
  }
}

/** Whether nothing at all is allowed. */
export function isEmpty({ identities, files }: AllowRules): boolean {
  return identities.length === 0 && files.length === 0
}

/** The union of `rules`. */
export function anyOf(rules: readonly AllowRules[]): AllowRules {
  return { identities: rules.flatMap(({ identities }) => identities), files: rules.flatMap(({ files }) => files) }
}

function parseIdentities(text: string): SpiffePattern {
  const problem = isSpiffeId(text) ? undefined : spiffePatternProblem(text)
  if (problem === undefined) return parseSpiffePattern(text)
  throw refusal(text, problem, 'a SPIFFE ID or a pattern such as "spiffe://cluster.local/ns/*/sa/*"')
}

function parseFiles(text: string): FilePattern {
  const pattern = parseFilePattern(text)
  if (typeof pattern !== 'string') return pattern
  throw refusal(
    text,
    pattern,
    '"file-cert:/etc/certs/*", "file-cert:CHAIN~KEY" or "file-root:FILE" with absolute paths, "kubernetes://NAMESPACE/*", or "token://AUDIENCE"',
  )
}

function refusal(text: string, problem: string, remedy: string): SdsServerError {
  return new SdsServerError(
    'invalid-config',
    `Cannot use ${JSON.stringify(text)} in allow: it ${problem}. Write ${remedy}`,
  )
}

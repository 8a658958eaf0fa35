/** A configuration that cannot be used: each problem has its place and its remedy. */
import { isAbsolute, relative } from 'node:path'
import { type Fault, faultText } from './fault.ts'

/** Where a value comes from. */
export type Origin =
  | { readonly kind: 'flag'; readonly flag: string }
  | { readonly kind: 'environment'; readonly variable: string; readonly text: string }
  | { readonly kind: 'file'; readonly file: string; readonly line?: number }
  | { readonly kind: 'profile'; readonly profile: string }
  | { readonly kind: 'default' }

export const UNWRITTEN: Origin = { kind: 'default' }

/** A fault of the key at `path` (empty: the whole file). */
export interface Problem extends Fault {
  readonly origin: Origin
  readonly path: string
}

/** Every problem found in one pass, one line per problem in the message. The program exits with 78. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly code = 'invalid-config'
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[], options: { readonly cause?: unknown } = {}) {
    super(problems.map(formatProblem).join('\n'), options)
    this.problems = problems
  }
}

/** The text of `check-config` and of a failed start: a sentence, then one line per problem. */
export function describeConfigError({ message }: ConfigError): string {
  return `the configuration cannot be used.\n${message.replace(/^/gm, '  ')}`
}

/** `livery.yaml:12`, `environment CA_ADDR`, `flag --admin` or `default`. */
export function formatOrigin(origin: Origin): string {
  switch (origin.kind) {
    case 'flag':
      return `flag ${origin.flag}`
    case 'environment':
      return `environment ${origin.variable}`
    case 'file':
      return origin.line === undefined ? shortPath(origin.file) : `${shortPath(origin.file)}:${origin.line}`
    case 'profile':
      return `profile ${origin.profile}`
    case 'default':
      return 'default'
  }
}

function formatProblem({ origin, path, ...fault }: Problem): string {
  const place = origin.kind === 'default' ? 'configuration' : formatOrigin(origin)
  return [place, ...(path === '' ? [] : [path]), faultText(fault)].join(': ')
}

function shortPath(file: string): string {
  const folder = process.cwd()
  const short = relative(folder, file)
  // Without its slash, a path under the root would look like one in any folder.
  return short.startsWith('..') || isAbsolute(short) || folder === '/' ? file : short
}

/** What is wrong with a configuration, where it is written, and what to do about it. */
import { isAbsolute, relative } from 'node:path'

/** Where a value comes from. */
export type Origin =
  | { readonly kind: 'flag'; readonly flag: string }
  | { readonly kind: 'environment'; readonly variable: string; readonly text: string }
  | { readonly kind: 'file'; readonly file: string; readonly line?: number }
  | { readonly kind: 'default' }

/** One fault: the place, the path of the key (empty: the whole file), and a text with value, reason and remedy. */
export interface ConfigProblem {
  readonly origin: Origin
  readonly path: string
  readonly text: string
}

/** Every fault that was found in one pass, one line each in the message. The program exits with 78. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly code = 'invalid-config'
  readonly problems: readonly ConfigProblem[]

  constructor(problems: readonly ConfigProblem[], options: { readonly cause?: unknown } = {}) {
    super(problems.map(formatProblem).join('\n'), options)
    this.problems = problems
  }
}

/** As `check-config` and a start that fails tell it: the sentence, then a line a fault. */
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
    case 'default':
      return 'default'
  }
}

function formatProblem({ origin, path, text }: ConfigProblem): string {
  const place = origin.kind === 'default' ? 'configuration' : formatOrigin(origin)
  return path === '' ? `${place}: ${text}` : `${place}: ${path}: ${text}`
}

function shortPath(file: string): string {
  const short = relative(process.cwd(), file)
  return short.startsWith('..') || isAbsolute(short) ? file : short
}

/** A fault by the path of its key; the caller knows where that is written. */
export interface Finding {
  readonly path: string
  readonly text: string
}

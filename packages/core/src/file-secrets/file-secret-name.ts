/** Names of secrets that others write, as Istio has them: `file-cert:CHAIN~KEY`, `file-root:FILE`, `kubernetes://…`; `token://…`; and patterns of such names. */
import { dirname } from 'node:path'
import type { FileSecretName, TokenName } from '../secrets/secret-name.ts'
import {
  formatKubernetesName,
  KUBERNETES_SCHEME,
  type KubernetesName,
  type KubernetesPattern,
  matchesKubernetesPattern,
  parseKubernetesName,
  parseKubernetesPattern,
} from './kubernetes-name.ts'
import { formatTokenName, parseTokenName, TOKEN_SCHEME } from './token-name.ts'

const PAIR = 'file-cert:'
const ROOTS = 'file-root:'
const SEPARATOR = '~'
/** Stands for a path: the roots of the operating system. */
export const SYSTEM_ROOTS = 'system'

/** Which names a caller is allowed. */
export type FilePattern = PathsPattern | KubernetesPattern | TokenName

/** Both files of a pair have to match. */
interface PathsPattern {
  readonly kind: 'file-pair' | 'file-roots'
  readonly chain: PathPattern
  /** The path of the key; the same as `chain` where one pattern is given. */
  readonly key: PathPattern
}

/** A path, or a folder with what is in it (`files`: directly). */
interface PathPattern {
  readonly path: string
  readonly below: 'nothing' | 'files' | 'everything'
}

/** Whether `text` is meant as the name of a secret that others write, right or wrong. */
export function isFileName(text: string): boolean {
  return [PAIR, ROOTS, KUBERNETES_SCHEME, TOKEN_SCHEME].some(start => text.startsWith(start))
}

/**
 * Reads a name; a text is the reason why it is not one, after "it …". `namespace`: the namespace of `kubernetes://NAME`.
 * Default: such a name is refused.
 */
export function parseFileName(text: string, namespace?: string): FileSecretName | string {
  if (text.startsWith(KUBERNETES_SCHEME)) return parseKubernetesName(text, namespace)
  if (text.startsWith(TOKEN_SCHEME)) return parseTokenName(text)
  if (text.startsWith(ROOTS)) {
    const file = text.slice(ROOTS.length)
    return (file === SYSTEM_ROOTS ? undefined : pathProblem(file)) ?? { kind: 'file-roots', file }
  }
  const [chain = '', key, ...others] = text.slice(PAIR.length).split(SEPARATOR)
  if (!text.startsWith(PAIR) || key === undefined || others.length > 0) return 'is not file-cert:CHAIN~KEY'
  return pathProblem(chain) ?? pathProblem(key) ?? { kind: 'file-pair', chain, key }
}

export function formatFileName(name: FileSecretName): string {
  if (name.kind === 'file-pair') return `${PAIR}${name.chain}${SEPARATOR}${name.key}`
  if (name.kind === 'file-roots') return `${ROOTS}${name.file}`
  return name.kind === 'pod-token' ? formatTokenName(name) : formatKubernetesName(name)
}

/** The paths of a name, except the path of the system's roots. */
export function pathsOf(name: FileSecretName): readonly string[] {
  if (name.kind === 'file-pair') return [name.chain, name.key]
  return name.kind === 'file-roots' && name.file !== SYSTEM_ROOTS ? [name.file] : []
}

/**
 * Reads a pattern: a name, or one with a folder and `/*` (the files in it, the Secrets of a namespace) or `/**` (all below).
 * As {@link parseFileName}.
 */
export function parseFilePattern(text: string): FilePattern | string {
  if (!isFileName(text)) return 'starts with none of "file-cert:", "file-root:", "kubernetes://", "token://"'
  if (text.startsWith(KUBERNETES_SCHEME)) return parseKubernetesPattern(text)
  if (text.startsWith(TOKEN_SCHEME)) return parseTokenName(text)
  const isPair = text.startsWith(PAIR)
  const paths = text.slice(isPair ? PAIR.length : ROOTS.length).split(SEPARATOR)
  const [chain = '', key = chain] = paths
  if (paths.length > (isPair ? 2 : 1)) return `has ${paths.length} paths`
  const patterns = { chain: pathPattern(chain), key: pathPattern(key) }
  const problem = pathProblem(patterns.chain.path) ?? pathProblem(patterns.key.path)
  if (problem !== undefined) return problem
  if (isPair && paths.length === 1 && patterns.chain.below === 'nothing') return 'names no key'
  return { kind: isPair ? 'file-pair' : 'file-roots', ...patterns }
}

/** Whether a Kubernetes Secret has it. */
export function isOfSecret(name: FileSecretName): name is KubernetesName {
  return name.kind === 'kubernetes-pair' || name.kind === 'kubernetes-roots'
}

/** Whether `pattern` matches `name`. */
export function matchesFilePattern(pattern: FilePattern, name: FileSecretName): boolean {
  if (isOfSecret(name)) return pattern.kind === 'kubernetes' && matchesKubernetesPattern(pattern, name)
  if (name.kind === 'pod-token') return pattern.kind === name.kind && pattern.audience === name.audience
  if (name.kind === 'file-roots') return pattern.kind === name.kind && matchesPath(pattern.chain, name.file)
  return pattern.kind === name.kind && matchesPath(pattern.chain, name.chain) && matchesPath(pattern.key, name.key)
}

/** The folders in which the files of a pattern are. */
export function foldersOf(pattern: FilePattern): readonly string[] {
  if (pattern.kind === 'kubernetes' || pattern.kind === 'pod-token') return []
  return [pattern.chain, pattern.key].map(({ path, below }) => (below === 'nothing' ? dirname(path) : path))
}

const BELOW = { '/*': 'files', '/**': 'everything' } as const

function pathPattern(text: string): PathPattern {
  for (const [end, below] of Object.entries(BELOW))
    if (text.endsWith(end)) return { path: text.slice(0, -end.length), below }
  return { path: text, below: 'nothing' }
}

function matchesPath({ path, below }: PathPattern, file: string): boolean {
  if (below === 'nothing') return file === path
  return file.startsWith(`${path}/`) && (below === 'everything' || dirname(file) === path)
}

/** Only the shortest form of a path is a unique name for a file. */
function pathProblem(path: string): string | undefined {
  if (!path.startsWith('/')) return 'has a path that is not absolute'
  const segments = path.slice(1).split('/')
  if (segments.includes('..') || segments.includes('.')) return 'has a path with . or .. in it'
  if (segments.includes('')) return 'has a path with an empty part'
  if (/\p{Cc}/u.test(path)) return 'has a path with a control character'
  return path.includes('*') ? 'has * elsewhere than in /* or /** at the end of a folder' : undefined
}

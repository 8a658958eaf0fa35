/** The secrets that others write, in files, Secrets and tokens, as one caller is allowed them. */
import type { FileSecretName } from '@livery/core'
import { isOfSecret, matchesFilePattern } from '@livery/core/file-secrets'
import type { NameBudget, Resolution, SecretSource } from '../protocol/secret-source.ts'
import type { AllowRules } from './allow-rules.ts'

const NO_POD =
  'a token is for the pod that asks, and this caller is not known as a pod: set identify on a shared socket'
const KINDS = {
  'file-pair': 'these files',
  'file-roots': 'these files',
  'kubernetes-pair': 'this Secret',
  'kubernetes-roots': 'this Secret',
  'pod-token': 'this token',
} as const

/** Whether every layer allows them. `pod`: the caller's. The roots of the system are known to everybody on it. */
export function allowsFiles(name: FileSecretName, layers: readonly AllowRules[], pod: string | undefined): boolean {
  if (name.kind === 'file-roots' && name.file === 'system') return true
  if (name.kind === 'pod-token' && name.pod !== undefined && name.pod !== pod) return false
  return layers.every(({ files }) => files.some(pattern => matchesFilePattern(pattern, name)))
}

/** Decides on a name, which takes from `budget`. */
export function resolveFiles(
  asked: FileSecretName,
  { files }: SecretSource,
  layers: readonly AllowRules[],
  pod: string | undefined,
  budget: NameBudget,
): Resolution {
  if (!files) return { kind: 'refused', reason: 'this agent serves no secrets that others write' }
  if (!allowsFiles(asked, layers, pod)) {
    const what = KINDS[asked.kind]
    return { kind: 'refused', reason: `this caller is not allowed ${what}: see allow and callers of this socket` }
  }
  if (asked.kind === 'pod-token' && pod === undefined) return { kind: 'refused', reason: NO_POD }
  const secret = asked.kind === 'pod-token' && pod !== undefined ? { ...asked, pod } : asked
  const refusal = files.refusal(secret)
  if (refusal !== undefined) return { kind: 'refused', reason: `it ${refusal}` }
  const taken = budget.takeFiles(secret, files)
  if (taken !== 'granted') {
    const crowding = taken === 'process' ? files.noRoom(secret) : undefined
    return { kind: 'refused', reason: crowding === undefined ? noRoom(taken, secret) : `it ${crowding}` }
  }
  const problem = files.problem(secret)
  return problem === undefined ? { kind: 'granted', secret } : { kind: 'unknown', secret, reason: problem }
}

function noRoom(bound: 'caller' | 'process', name: FileSecretName): string {
  if (bound === 'caller')
    return 'too many names of files, Secrets and tokens for this caller: see limits.perCaller.files'
  const what = isOfSecret(name) ? 'the Secrets' : 'the names of files and tokens'
  return `this caller has its share of ${what} that this agent can watch: it waits until others are released; ask for fewer`
}

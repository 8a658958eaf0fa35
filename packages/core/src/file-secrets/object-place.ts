/** Kubernetes Secrets: the fields with the pair or the roots, in Istio's order of precedence. */
import type { FileSecretName, KubernetesObject } from '../secrets/secret-name.ts'
import { FileFault } from './file-fault.ts'
import type { LoadedSecret, SecretPlace } from './file-secret.ts'
import { type KubernetesName, ROOTS_SUFFIX } from './kubernetes-name.ts'

const PAIRS = [
  { chain: 'cert', key: 'key' },
  { chain: 'tls.crt', key: 'tls.key' },
] as const
const ROOTS = ['cacert', 'ca.crt'] as const

/** The Secrets that a process may read. */
export interface SecretObjects {
  /** How many more can be followed. */
  readonly room: number
  /** Why this one is not followed, after "it …"; `undefined` if it may be. */
  refusal(object: KubernetesObject): string | undefined
  /**
   * Calls `onChange` when the object may have changed or can be read again, at most once a second, never inside this call.
   * Throws a `TypeError` for one that is refused.
   */
  follow(object: KubernetesObject, onChange: () => void): FollowedObject
}

/** How long a Secret is followed without a stream: repeated requests then cost the API server no more calls. */
const KEEP_MS = 30_000

/** Disposing it ends the calls. */
export interface FollowedObject extends Disposable {
  /** The fields among `fields` that are not empty, for the caller to wipe; `undefined` if there is no such object. Rejects with a `CAError`. */
  read(fields: readonly string[]): Promise<ReadonlyMap<string, Buffer> | undefined>
}

/** Loads the parts of a secret; `read` takes the label of a part. */
export type LoadParts = (
  parts: Extract<FileSecretName, { readonly kind: 'file-pair' | 'file-roots' }>,
  read: (label: string) => Promise<Buffer>,
) => Promise<LoadedSecret>

/** The Secrets in which a name is looked for, first to last. */
export function objectsOf({ kind, name }: KubernetesName): readonly string[] {
  return kind === 'kubernetes-pair' ? [name] : [`${name}${ROOTS_SUFFIX}`, name]
}

export function objectPlace(asked: KubernetesName, objects: SecretObjects, loadParts: LoadParts): SecretPlace {
  const { kind, namespace } = asked
  const isPair = kind === 'kubernetes-pair'
  const names = objectsOf(asked)
  const label = `the Secret ${namespace}/${names.join(' or ')}`
  let followed: readonly FollowedObject[] = []
  return {
    label,
    // One write replaces a Secret as a whole.
    waitMs: 0,
    keepMs: KEEP_MS,
    stamp: () => '',
    watch(look) {
      followed = names.map(each => objects.follow({ namespace, name: each }, () => look('event')))
      return {
        [Symbol.dispose]() {
          for (const each of followed) each[Symbol.dispose]()
        },
      }
    },
    async load() {
      for (const [index, each] of followed.entries()) {
        const fields = await each.read(isPair ? PAIRS.flatMap(({ chain, key }) => [chain, key]) : ROOTS)
        if (!fields) continue
        const secret = `the Secret ${namespace}/${names[index]}`
        const labelOf = (field: string) => `${field} of ${secret}`
        const parts = isPair ? pairIn(fields, labelOf) : rootsIn(fields, labelOf)
        const bytes = new Map(Array.from(fields, ([field, value]) => [labelOf(field), value]))
        try {
          if (!parts) throw noParts(secret, isPair)
          return await loadParts(parts, async part => bytes.get(part) ?? Buffer.alloc(0))
        } finally {
          for (const value of fields.values()) value.fill(0)
        }
      }
      const remedy = 'Create it, or correct the name'
      throw new FileFault({ file: label, reason: 'it is not there', remedy, code: 'unavailable', isGone: true })
    },
  }
}

function pairIn(fields: ReadonlyMap<string, Buffer>, labelOf: (field: string) => string) {
  const pair = PAIRS.find(({ chain, key }) => fields.has(chain) && fields.has(key))
  return pair && ({ kind: 'file-pair', chain: labelOf(pair.chain), key: labelOf(pair.key) } as const)
}

function rootsIn(fields: ReadonlyMap<string, Buffer>, labelOf: (field: string) => string) {
  const field = ROOTS.find(each => fields.has(each))
  return field && ({ kind: 'file-roots', file: labelOf(field) } as const)
}

function noParts(file: string, isPair: boolean): FileFault {
  const pairs = PAIRS.map(({ chain, key }) => `${chain} and ${key}`).join(', or ')
  const fields = isPair ? pairs : ROOTS.join(', or ')
  return new FileFault({ file, reason: `it has no ${fields}`, remedy: 'Write them, none of them empty' })
}

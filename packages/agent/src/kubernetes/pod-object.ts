/** Reads a pod as the API server sends it. A field that does not have Kubernetes' form is ignored. */
import type { PodFacts } from '../config/identity-template.ts'

/** An object of the API server, and the pod that it describes. */
export interface PodObject {
  /** The object's UID. */
  readonly uid: string
  readonly pod: PodFacts
  /** Whether it mirrors a static pod, which the node knows by another UID. */
  readonly isMirror: boolean
  /** Its containers have ended, and will not start again. */
  readonly hasEnded: boolean
}

/** An object that cannot be used. It has a `uid` where that can be read. */
export interface UnusableObject {
  readonly uid: string | undefined
  readonly problem: string
}

/** RFC 1123: a namespace is a label; names of pods and service accounts are subdomains. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const SUBDOMAIN = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*$/
/** A UUID, or the hash of a static pod: the name of a folder. */
const UID = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/** Annotations of a static pod's mirror: kubelet sets them to the static pod's UID. */
const MIRROR = 'kubernetes.io/config.mirror'
const HASH = 'kubernetes.io/config.hash'

const MAX_LABELS = 256
/** Kubernetes allows 317 for a key with its prefix, and 63 for a label's value. */
const MAX_TEXT = 512

/** Keeps only the named annotations. */
export function readPodObject(
  value: unknown,
  nodeName: string,
  annotations: readonly string[],
): PodObject | UnusableObject {
  const { metadata, spec, status } = recordOf(value)
  const { uid, namespace, name, labels, annotations: written } = recordOf(metadata)
  const { nodeName: node, serviceAccountName: serviceAccount = '' } = recordOf(spec)
  if (!isMatch(uid, UID)) return { uid: undefined, problem: 'its UID is not a name' }
  if (!isMatch(namespace, LABEL) || !isMatch(name, SUBDOMAIN))
    return { uid, problem: 'its name is not a name (RFC 1123)' }
  if (serviceAccount !== '' && !isMatch(serviceAccount, SUBDOMAIN))
    return { uid, problem: `the service account of ${namespace}/${name} is not a name (RFC 1123)` }
  if (node !== nodeName) return { uid, problem: `${namespace}/${name} is not a pod of this node` }
  const noted = recordOf(written)
  const mirrored = noted[MIRROR]
  const isMirror = mirrored !== undefined
  if (isMirror && !(isMatch(mirrored, UID) && mirrored === noted[HASH]))
    return { uid, problem: `${namespace}/${name} is a mirror, but ${MIRROR} and ${HASH} are not the same name` }
  const { phase } = recordOf(status)
  return {
    uid,
    isMirror,
    hasEnded: phase === 'Succeeded' || phase === 'Failed',
    pod: {
      uid: isMirror ? mirrored : uid,
      namespace,
      name,
      serviceAccount,
      labels: textsOf(Object.entries(recordOf(labels)).slice(0, MAX_LABELS)),
      annotations: textsOf(annotations.map(key => [key, noted[key]])),
    },
  }
}

function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return Object(value)
}

function isMatch(value: unknown, pattern: RegExp): value is string {
  return typeof value === 'string' && pattern.test(value)
}

function textsOf(entries: readonly (readonly [string, unknown])[]): ReadonlyMap<string, string> {
  const texts = new Map<string, string>()
  for (const [key, value] of entries)
    if (typeof value === 'string' && key.length <= MAX_TEXT && value.length <= MAX_TEXT) texts.set(key, value)
  return texts
}

/** The keys of `kubernetes` and of `kubernetesSecrets`. */
import * as v from 'valibot'
import { Fault } from '../schema/fault.ts'
import { key, list, object, section, text } from '../schema/schema-parts.ts'
import { nonEmpty } from '../schema/values.ts'
import { parseLabelSelector } from './label-selector.ts'
import { wishKeys } from './wish-schema.ts'

const labelSelector = text(
  'label selector',
  input =>
    parseLabelSelector(input) ?? new Fault('is not a label selector', 'Write it as for kubectl -l: app=web,tier!=test'),
  'Quote it',
)

/** RFC 1123, as Kubernetes checks the names of nodes and namespaces. */
const kubernetesName = text(
  'name of Kubernetes',
  input => {
    const isName = input.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(input)
    return isName ? input : new Fault('is not a name (RFC 1123)', 'Write lower-case letters, digits, "-" and "."')
  },
  'Quote it',
)

const cgroupRoot = text(
  'absolute path',
  input => (input.startsWith('/') ? input : new Fault('is not an absolute path', 'Write such as /kubelet')),
  'Quote it',
)

/** Identities of the pods of this node. */
export const kubernetes = object({
  nodeName: key('the name of this node: only its pods are served', kubernetesName),
  identity: key(
    "the identity of a pod, built from `{trustDomain}`, `{namespace}`, `{serviceAccount}`, `{pod}`, `{uid}`, `{label:KEY}` and `{annotation:KEY}`. A user who may write a pod's labels or annotations chooses their values",
    nonEmpty,
    { default: 'spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}' },
  ),
  ...wishKeys({
    form: nonEmpty,
    meaning:
      "the DNS names of a pod's certificate, built from the same variables, at most one per label: `{serviceAccount}.{namespace}.svc.cluster.local`. If a value is missing or is not a DNS label, the pod goes without that name; pods that share an identity share its names",
  }),
  selector: key('which pods get an identity, as for `kubectl -l`; `""` is every pod', labelSelector, {
    default: 'livery.dev/inject=true',
  }),
  namespaces: section('the namespaces of these pods', {
    only: key('pods of these namespaces alone; an empty list means all', list(kubernetesName), { default: [] }),
    except: key('no pods of these namespaces', list(kubernetesName), { default: [] }),
  }),
  cgroupRoot: v.optional(
    key("the control group above kubelet's own; without it, the one of the agent's pod, else `/`", cgroupRoot),
  ),
})

/** Secrets that callers name. */
export const kubernetesSecrets = object({
  namespaces: key(
    'the namespaces whose Secrets can be named, as `kubernetes://NAMESPACE/NAME`; `kubernetes://NAME` is in the first. A rule of the socket has to allow the name, too',
    list(kubernetesName),
  ),
})

export type KubernetesSetting = v.InferOutput<typeof kubernetes>

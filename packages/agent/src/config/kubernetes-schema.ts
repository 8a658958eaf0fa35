/** The keys of `kubernetes`. */
import * as v from 'valibot'
import { parseLabelSelector } from '../kubernetes/label-selector.ts'
import { Fault } from '../schema/fault.ts'
import { list, object, text } from '../schema/schema-parts.ts'
import { nonEmpty, path, socketMode } from '../schema/values.ts'

const labelSelector = text(
  input =>
    parseLabelSelector(input) ?? new Fault('is not a label selector', 'Write it as for kubectl -l: app=web,tier!=test'),
  'Quote it',
)

/** RFC 1123, as Kubernetes checks the names of nodes and namespaces. */
const kubernetesName = text(input => {
  const isName = input.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(input)
  return isName ? input : new Fault('is not a name (RFC 1123)', 'Write lower-case letters, digits, "-" and "."')
}, 'Quote it')

const fileName = text(input => {
  const isName = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(input)
  return isName ? input : new Fault('is not a plain file name', 'Write such as socket')
}, 'Quote it')

/** Identities of the pods of this node. */
export const kubernetes = object({
  nodeName: kubernetesName,
  identity: nonEmpty,
  selector: labelSelector,
  namespaces: object({ only: list(kubernetesName), except: list(kubernetesName) }),
  sockets: object({ root: path, name: fileName, mode: socketMode }),
  csi: v.optional(object({ socket: path, kubeletRoot: path })),
  cgroupRoot: v.optional(
    text(
      input => (input.startsWith('/') ? input : new Fault('is not an absolute path', 'Write such as /kubelet')),
      'Quote it',
    ),
  ),
})

export type KubernetesSetting = v.InferOutput<typeof kubernetes>

/** The node of a peer, as its first request names it. */
import type { Node } from '../src/gen/envoy/config/core/v3/base.ts'

export function peerNode(id: string): Node {
  return { id, cluster: '', userAgentName: '', userAgentBuildVersion: undefined }
}

/** The node of an Envoy 1.`minor`. */
export function envoyNode(id: string, minor: number): Node {
  const version = { majorNumber: 1, minorNumber: minor }
  return { ...peerNode(id), userAgentName: 'envoy', userAgentBuildVersion: { version } }
}

/** The methods of the Container Storage Interface that this driver answers: those that a node needs for volumes of its pods. */
import type { ServiceDefinition } from '@grpc/grpc-js'
import * as csi from '../gen/csi/v1/csi.ts'

interface Codec<Message> {
  encode(message: Message): { finish(): Uint8Array }
  decode(bytes: Uint8Array): Message
}

function unary<Request, Response>(path: string, request: Codec<Request>, response: Codec<Response>) {
  return {
    path: `/csi.v1.${path}`,
    requestStream: false as const,
    responseStream: false as const,
    requestSerialize: (message: Request) => Buffer.from(request.encode(message).finish()),
    requestDeserialize: (bytes: Buffer) => request.decode(bytes),
    responseSerialize: (message: Response) => Buffer.from(response.encode(message).finish()),
    responseDeserialize: (bytes: Buffer) => response.decode(bytes),
  }
}

export const csiIdentity = {
  getPluginInfo: unary('Identity/GetPluginInfo', csi.GetPluginInfoRequest, csi.GetPluginInfoResponse),
  getPluginCapabilities: unary(
    'Identity/GetPluginCapabilities',
    csi.GetPluginCapabilitiesRequest,
    csi.GetPluginCapabilitiesResponse,
  ),
  probe: unary('Identity/Probe', csi.ProbeRequest, csi.ProbeResponse),
} satisfies ServiceDefinition

export const csiNode = {
  nodePublishVolume: unary('Node/NodePublishVolume', csi.NodePublishVolumeRequest, csi.NodePublishVolumeResponse),
  nodeUnpublishVolume: unary(
    'Node/NodeUnpublishVolume',
    csi.NodeUnpublishVolumeRequest,
    csi.NodeUnpublishVolumeResponse,
  ),
  nodeGetCapabilities: unary(
    'Node/NodeGetCapabilities',
    csi.NodeGetCapabilitiesRequest,
    csi.NodeGetCapabilitiesResponse,
  ),
  nodeGetInfo: unary('Node/NodeGetInfo', csi.NodeGetInfoRequest, csi.NodeGetInfoResponse),
} satisfies ServiceDefinition

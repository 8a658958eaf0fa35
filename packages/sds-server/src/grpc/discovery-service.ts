/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import type { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { DeltaStream } from '../protocol/delta-stream.ts'
import { decodeDeltaRequest, decodeDiscoveryRequest } from '../protocol/request-codec.ts'
import type { DiscoveryMessage } from '../protocol/response-content.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import type { ServiceContext, StreamMethod } from './call-context.ts'
import { FetchSecrets } from './fetch-secrets.ts'
import type { CallOpener } from './session-guard.ts'
import type { SocketCalls } from './socket-calls.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

/** The methods by path. */
export function discoveryMethods(context: ServiceContext, calls: SocketCalls): ReadonlyMap<string, CallOpener> {
  const sotw: StreamMethod<DiscoveryRequest, DiscoveryMessage> = {
    method: 'StreamSecrets',
    context,
    decode: decodeDiscoveryRequest,
    createStream: (each, subscriptions) => new SotwStream(each, subscriptions, context.refusedNames),
    encoder: context.sotw,
  }
  const delta: StreamMethod<DeltaDiscoveryRequest, DiscoveryMessage> = {
    method: 'DeltaSecrets',
    context,
    decode: decodeDeltaRequest,
    createStream: (each, subscriptions) => new DeltaStream(each, subscriptions),
    encoder: context.delta,
  }
  const fetch = new FetchSecrets(context, calls)
  return new Map<string, CallOpener>([
    [`/${SDS_SERVICE}/${sotw.method}`, (call, connection) => calls.serve(call, connection, sotw)],
    [`/${SDS_SERVICE}/${delta.method}`, (call, connection) => calls.serve(call, connection, delta)],
    [`/${SDS_SERVICE}/FetchSecrets`, (call, connection) => calls.serveUnary(call, connection, fetch)],
  ])
}

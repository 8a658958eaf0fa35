/** The SPIFFE Workload API on one socket: https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE_Workload_API.md */
import type { WorkloadMethod } from '../events/sds-event.ts'
import { X509SVIDRequest } from '../gen/spiffe/workload/workload.ts'
import type { StreamCallContext, StreamMethod } from '../grpc/call-context.ts'
import type { Call } from '../grpc/http2-call.ts'
import type { CallOpener } from '../grpc/session-guard.ts'
import type { SocketCalls } from '../grpc/socket-calls.ts'
import type { DiscoveryStream, StreamContext } from '../protocol/discovery-protocol.ts'
import { decoder } from '../protocol/request-codec.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import type { Subscriptions } from '../protocol/subscriptions.ts'
import type { WorkloadEncoder } from './workload-encoding.ts'
import { type WorkloadContent, type WorkloadMessage, type WorkloadRequest, WorkloadStream } from './workload-stream.ts'

export const WORKLOAD_SERVICE = 'SpiffeWorkloadAPI'

const METHODS: readonly WorkloadMethod[] = [
  'FetchX509SVID',
  'FetchX509Bundles',
  'FetchJWTSVID',
  'FetchJWTBundles',
  'ValidateJWTSVID',
]

/** Every call has it, so that nobody is tricked into making one: SPIFFE Workload Endpoint, section 3. */
const SECURITY_HEADER = 'workload.spiffe.io'

export interface WorkloadContext extends StreamCallContext {
  readonly names: { readonly all: string }
  readonly svids: WorkloadEncoder
  readonly bundles: WorkloadEncoder
  readonly jwtBundles: WorkloadEncoder
}

/** The methods by path. */
export function workloadMethods(context: WorkloadContext, calls: SocketCalls): ReadonlyMap<string, CallOpener> {
  return new Map(
    METHODS.map(name => {
      const method = methodOf(name, context)
      return [`/${WORKLOAD_SERVICE}/${name}`, (call, connection) => calls.serve(call, connection, method)]
    }),
  )
}

type Method = StreamMethod<WorkloadRequest, WorkloadMessage>

function methodOf(method: WorkloadMethod, context: WorkloadContext): Method {
  const common = { method, context, decode: decodeWorkloadRequest, checkHeaders }
  switch (method) {
    case 'FetchX509SVID':
      return { ...common, ...served('svids', context.svids, context) }
    case 'FetchX509Bundles':
      return { ...common, ...served('bundles', context.bundles, context) }
    // A client waits for the first answer before it does anything else, even if it needs X.509 only.
    case 'FetchJWTBundles':
      return { ...common, ...served('trust-domains', context.jwtBundles, context) }
    case 'FetchJWTSVID':
      return { ...common, ...unserved('this agent issues X.509-SVIDs, and no JWT-SVIDs', context) }
    case 'ValidateJWTSVID':
      return {
        ...common,
        ...unserved('this agent has the JWT keys of no trust domain, and validates no JWT-SVIDs', context),
      }
  }
}

function served(content: WorkloadContent, encoder: WorkloadEncoder, { names }: WorkloadContext) {
  const options = { content, allBundles: names.all }
  return {
    createStream: (context: StreamContext, subscriptions: Subscriptions) =>
      new WorkloadStream(context, subscriptions, options),
    encoder,
  }
}

const SILENT: DiscoveryStream<WorkloadRequest, WorkloadMessage> = {
  nodeId: '',
  receive() {},
  take: () => undefined,
}

/** `reason`: for the status UNIMPLEMENTED. */
function unserved(
  reason: string,
  { svids: encoder }: WorkloadContext,
): Pick<Method, 'createStream' | 'encoder' | 'checkHeaders'> {
  return {
    createStream: () => SILENT,
    encoder,
    checkHeaders(call) {
      checkHeaders(call)
      throw new StreamRefusal('unimplemented', reason)
    },
  }
}

function checkHeaders(call: Pick<Call, 'header'>): void {
  if (call.header(SECURITY_HEADER) === 'true') return
  throw new StreamRefusal('invalid-argument', `the header "${SECURITY_HEADER}: true" is missing`)
}

/** The requests that are served have no fields. */
const readRequest = decoder(X509SVIDRequest, 'request of the Workload API')
const REQUEST: WorkloadRequest = { responseNonce: '', errorDetail: undefined }

export function decodeWorkloadRequest(message: Buffer): WorkloadRequest {
  readRequest(message)
  return REQUEST
}

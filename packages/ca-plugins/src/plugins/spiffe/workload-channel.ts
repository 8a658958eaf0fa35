/** The gRPC connection to a Workload API. */
import { ChannelCredentials, Client, type ClientReadableStream, Metadata } from '@grpc/grpc-js'
import { X509SVIDRequest } from '../../gen/spiffe/workload/workload.ts'
import { muteGrpcLog } from '../../transport/grpc-log.ts'
import { grpcTarget } from './workload-endpoint.ts'

/** An identity takes about 2 kB, and the roots come with each of them. All of it is read in one turn of the event loop. */
const MAX_MESSAGE_BYTES = 16 * 1_048_576

export class WorkloadChannel {
  readonly #client: Client

  /** `address` has no `endpointProblem`. Connects with the first call. */
  constructor(address: string) {
    muteGrpcLog()
    this.#client = new Client(grpcTarget(address), ChannelCredentials.createInsecure(), {
      'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
      'grpc.enable_retries': 0,
      'grpc.service_config_disable_resolution': 1,
      // The streams have their own schedule, and must not wait for a connection's.
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1_000,
      'grpc.use_local_subchannel_pool': 1,
      'grpc.enable_channelz': 0,
      // No proxy belongs between a workload and its node.
      'grpc.enable_http_proxy': 0,
    })
  }

  /** Both requests are empty messages. Answers stay bytes, so that a bad one is distinguished from a broken stream. */
  open(method: 'FetchX509SVID' | 'FetchX509Bundles'): ClientReadableStream<Buffer> {
    const metadata = new Metadata()
    // The endpoint refuses calls without it, so that nobody is tricked into making them (section 6.1 of its specification).
    metadata.set('workload.spiffe.io', 'true')
    return this.#client.makeServerStreamRequest(
      `/SpiffeWorkloadAPI/${method}`,
      request => Buffer.from(X509SVIDRequest.encode(request).finish()),
      bytes => bytes,
      {},
      metadata,
    )
  }

  close(): void {
    this.#client.close()
  }
}

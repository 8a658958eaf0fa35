/** The metadata that a gRPC server of a test sends with a refusal. */
import { Metadata } from '@grpc/grpc-js'
import { RetryInfo, Status } from '../gen/google/rpc/status.ts'

/** Contains google.rpc.RetryInfo if the client is to wait. */
export function refusalMetadata(retryAfterMs: number | undefined): Metadata {
  const metadata = new Metadata()
  if (retryAfterMs === undefined) return metadata
  const retryDelay = { seconds: BigInt(Math.floor(retryAfterMs / 1000)), nanos: (retryAfterMs % 1000) * 1e6 }
  const value = Buffer.from(RetryInfo.encode({ retryDelay }).finish())
  const info = { typeUrl: 'type.googleapis.com/google.rpc.RetryInfo', value }
  metadata.set('grpc-status-details-bin', Buffer.from(Status.encode({ details: [info] }).finish()))
  return metadata
}

/** Reads when a CA that has no room wants the next attempt: https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto */
import type { ServiceError } from '@grpc/grpc-js'
import { RetryInfo, Status } from '../gen/google/rpc/status.ts'

/** How long the server asked to wait (google.rpc.RetryInfo), in milliseconds; errors of a library may lack the metadata. */
export function retryDelayOf({ metadata }: { readonly metadata?: ServiceError['metadata'] }): number | undefined {
  const [bytes] = metadata?.get('grpc-status-details-bin') ?? []
  if (!Buffer.isBuffer(bytes)) return undefined
  try {
    const info = Status.decode(bytes).details.find(({ typeUrl }) => typeUrl.endsWith('/google.rpc.RetryInfo'))
    const delay = info && RetryInfo.decode(info.value).retryDelay
    return delay && Math.max(0, Number(delay.seconds) * 1000 + delay.nanos / 1e6)
  } catch {
    // An unreadable detail is left out: the status itself has been understood.
    return undefined
  }
}

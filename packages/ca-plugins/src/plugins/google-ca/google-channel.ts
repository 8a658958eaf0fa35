/** What the gRPC channels to both services have in common. */
import { checkServerIdentity } from 'node:tls'
import { ChannelCredentials } from '@grpc/grpc-js'
import type { TlsMaterial } from '@livery/core'
import type { GoogleEndpoint } from './google-ca-config.ts'

/** An answer has some kilobytes. */
const MAX_ANSWER_BYTES = 1_048_576

/** A connection of its own, found dead within 30 s while a call waits, never retried underneath. */
export const CHANNEL_OPTIONS = {
  'grpc.max_receive_message_length': MAX_ANSWER_BYTES,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.initial_reconnect_backoff_ms': 500,
  'grpc.max_reconnect_backoff_ms': 10_000,
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_channelz': 0,
} as const

export function channelCredentials(
  { plaintext, host }: GoogleEndpoint,
  { roots, clientCertificate }: TlsMaterial,
): ChannelCredentials {
  if (plaintext) return ChannelCredentials.createInsecure()
  const { key = null, certificate = null } = clientCertificate ?? {}
  return ChannelCredentials.createSsl(roots ?? null, key, certificate, {
    checkServerIdentity: (_, peer) => checkServerIdentity(host, peer),
  })
}

/** Keeps grpc-js from writing to stderr: headers that it cannot take would be there, as often and as long as a peer sends them. */
import { logVerbosity, setLogVerbosity } from '@grpc/grpc-js'

/** The variables with which grpc-js lets users read its log have precedence. */
export function muteGrpcLog(): void {
  const { GRPC_VERBOSITY, GRPC_NODE_VERBOSITY } = process.env
  if (!GRPC_VERBOSITY && !GRPC_NODE_VERBOSITY) setLogVerbosity(logVerbosity.NONE)
}

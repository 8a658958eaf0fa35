/** Keeps grpc-js from writing to stderr: it logs each header that it rejects, as often as a peer sends one. */
import { logVerbosity, setLogVerbosity } from '@grpc/grpc-js'

/** The environment variables for the log of grpc-js take precedence. */
export function muteGrpcLog(): void {
  const { GRPC_VERBOSITY, GRPC_NODE_VERBOSITY } = process.env
  if (!GRPC_VERBOSITY && !GRPC_NODE_VERBOSITY) setLogVerbosity(logVerbosity.NONE)
}

/** The public names of `@livery/sds-server`. */

export type { CallerDirectory, CallerFacts, Identification } from './access/caller-directory.ts'
export type { CallerRule, SocketAccess } from './access/policy.ts'
export type { CallerTotals } from './budget/caller-account.ts'
export type { GivenLimits, SocketLimits } from './budget/socket-limits.ts'
export { waitForSocket } from './client/wait-for-socket.ts'
export type {
  CallMethod,
  ConnectionInfo,
  RefusedConnection,
  SdsEvent,
  SdsMethod,
  StreamInfo,
  WorkloadMethod,
} from './events/sds-event.ts'
export type { ListedStream } from './grpc/socket-calls.ts'
export type { StreamReport, SubscribedName } from './protocol/discovery-protocol.ts'
export type { WellKnownNames } from './protocol/resource-name.ts'
export type { SecretSource } from './protocol/secret-source.ts'
export type { SdsServerOptions } from './sds-server.ts'
export { createSdsServer, type SdsServer } from './sds-server.ts'
export { type AccessConfig, type SocketConfig, type SocketStatus, unreadableCallers } from './sds-socket.ts'
export { asSocket } from './socket/accept-connections.ts'
export { descriptorShortage, readDescriptorLimit } from './socket/descriptor-limit.ts'
export { descriptorOf } from './socket/peer-descriptor.ts'
export type { SdsServerErrorCode } from './socket/sds-server-error.ts'
export { SdsServerError } from './socket/sds-server-error.ts'
export { SocketFile, type SocketFileEvent, type SocketFileOptions } from './socket/socket-file.ts'
export { closedFolder } from './socket/unreachable-folder.ts'

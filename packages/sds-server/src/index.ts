/** The public names of `@livery/sds-server`. */

export type { CallerRule, SocketAccess } from './access.ts'
export type { StreamReport } from './discovery-protocol.ts'
export { descriptorOf } from './peer-descriptor.ts'
export type { WellKnownNames } from './resource-name.ts'
export type { ConnectionInfo, RefusedConnection, SdsEvent, SdsMethod, StreamInfo } from './sds-event.ts'
export type { SdsServerOptions } from './sds-server.ts'
export { createSdsServer, type SdsServer } from './sds-server.ts'
export type { SdsServerErrorCode } from './sds-server-error.ts'
export { SdsServerError } from './sds-server-error.ts'
export type { AccessConfig, SocketConfig, SocketLimits, SocketStatus } from './sds-socket.ts'
export type { SecretSource } from './secret-source.ts'
export { SocketFile, type SocketFileEvent, type SocketFileOptions } from './socket-file.ts'

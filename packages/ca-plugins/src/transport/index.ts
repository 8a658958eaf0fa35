/** The public names of `@livery/ca-plugins/connection`, from which the agent builds a plugin's `tls()`. */

export type { ConnectionTlsOptions } from './connection-tls.ts'
export { connectionTls } from './connection-tls.ts'

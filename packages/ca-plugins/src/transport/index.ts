/** The public names of `@livery/ca-plugins/connection`: what the agent makes a plugin's `tls()` of. */

export type { ConnectionTlsOptions } from './connection-tls.ts'
export { connectionTls } from './connection-tls.ts'

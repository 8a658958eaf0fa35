/** The public names of `@livery/agent`. */

export { ConfigError } from './config/config-error.ts'

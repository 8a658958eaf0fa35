/** The public names of `@livery/ca-plugins/failover`. */

export { capabilitiesOfAll, failover, failover as plugin } from './plugin.ts'

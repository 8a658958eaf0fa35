/** The `citadel` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { CitadelClient } from './client.ts'
import { checkConfig, citadelOptions, targetOf, warningsOf } from './config.ts'

export type { CitadelConfig } from './config.ts'

/** Istio's CA, or another that speaks its protocol: istiod, istio-csr, `livery ca`. DNS names are for the last one (see `checkConfig`). */
export const citadel = defineCAPlugin({
  apiVersion: 1,
  name: 'citadel',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'caller', dnsNames: true, keyTypes: KEY_TYPES },
  needs: ['tls', 'credentials'],
  options: citadelOptions,
  check: checkConfig,
  create(context, config) {
    const target = targetOf(config)
    for (const warning of warningsOf(target)) context.log.warn(warning)
    return new CitadelClient(config, target, context)
  },
})

export { citadel as plugin }

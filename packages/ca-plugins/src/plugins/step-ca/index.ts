/** The `step-ca` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { StepCaClient } from './client.ts'
import { checkConfig, proofOf, stepCaOptions } from './config.ts'

export type { StepCaConfig } from './config.ts'

export const stepCa = defineCAPlugin({
  apiVersion: 1,
  name: 'step-ca',
  capabilities: { roots: 'poll', ttl: 'honoured', san: 'csr', dnsNames: true, keyTypes: KEY_TYPES },
  needs: ['tls', 'credentials'],
  options: stepCaOptions,
  check: checkConfig,
  create: (context, config) => new StepCaClient(context, config, proofOf(config, context.credentials)),
})

export { stepCa as plugin }

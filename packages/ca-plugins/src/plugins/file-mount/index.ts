/** The `file-mount` plugin: its capabilities, and how a configuration becomes a client. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core/plugin'
import { FileMountClient } from './client.ts'
import { fileMountOptions, mountOf } from './config.ts'

export type { FileMountConfig } from './config.ts'
export { WellKnownFiles } from './well-known.ts'

export const fileMount = defineCAPlugin({
  apiVersion: 1,
  name: 'file-mount',
  capabilities: { roots: 'push', ttl: 'ignored', san: 'config', keyTypes: KEY_TYPES, bringsKey: true },
  options: fileMountOptions,
  check: config => void mountOf(config),
  create: (context, config) => new FileMountClient(context, mountOf(config)),
})

export { fileMount as plugin }

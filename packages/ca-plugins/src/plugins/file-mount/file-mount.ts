/** The `file-mount` plugin: identities whose key, chain and roots others write to files. */
import { defineCAPlugin, KEY_TYPES } from '@livery/core'
import { FileMountClient } from './client.ts'
import { fileMountOptions, mountOf } from './plugin.ts'

export const fileMount = defineCAPlugin({
  apiVersion: 1,
  name: 'file-mount',
  capabilities: { roots: 'push', ttl: 'ignored', san: 'config', keyTypes: KEY_TYPES, bringsKey: true },
  options: fileMountOptions,
  check: config => void mountOf(config),
  create: (context, config) => new FileMountClient(context, mountOf(config)),
})

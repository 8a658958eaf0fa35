/** Options of the `embedded` plugin. */
import { KEY_TYPES, type PluginOptions } from '@livery/core/plugin'

export const embeddedOptions = {
  directory: {
    type: 'path',
    description: 'the folder that keeps the CA, so that a restart has the same root; default: in memory only',
  },
  keyType: {
    type: 'string',
    choices: KEY_TYPES,
    default: 'ecdsa-p256',
    description: 'key type of new roots and intermediates; existing ones stay',
  },
  intermediate: {
    type: 'boolean',
    default: false,
    description: 'whether new roots sign through an intermediate',
  },
} as const satisfies PluginOptions

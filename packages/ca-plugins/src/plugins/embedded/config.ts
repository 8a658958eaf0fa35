/** What an operator sets for the `embedded` plugin. */
import { KEY_TYPES, type PluginOptions } from '@livery/core/plugin'

export const embeddedOptions = {
  directory: {
    type: 'path',
    description: 'where the CA is kept, so that a restart has the same root; in memory without it',
  },
  keyType: {
    type: 'string',
    choices: KEY_TYPES,
    default: 'ecdsa-p256',
    description: 'key type of the roots and intermediates made from now on; what is there already stays',
  },
  intermediate: {
    type: 'boolean',
    default: false,
    description: 'whether roots made from now on sign through an intermediate',
  },
} as const satisfies PluginOptions

/** The option of plugins that call a CA. */
import type { PluginOption } from '@livery/core'

export const CALL_TIMEOUT = {
  type: 'duration',
  min: '100ms',
  max: '10m',
  default: '10s',
  description: 'how long one call may take',
} as const satisfies PluginOption

/** The log for a plugin: its lines carry the plugin's name, and no secret. */
import { type PluginLog, scrub } from '@livery/core/plugin'
import type { Logger } from './logger.ts'

export function pluginLog(logger: Logger, plugin: string): PluginLog {
  return {
    debug: message => logger.debug({ plugin }, scrub(message)),
    info: message => logger.info({ plugin }, scrub(message)),
    warn: message => logger.warn({ plugin }, scrub(message)),
    error: message => logger.error({ plugin }, scrub(message)),
  }
}

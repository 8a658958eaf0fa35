/** Log lines for people: the time, the level, and a sentence. */
import { oneLine } from '@livery/core/plugin'
import { prettyFactory } from 'pino-pretty'

/** Turns a JSON line into such a line. */
export function prettyFormat(): (line: string) => string {
  return prettyFactory({
    colorize: process.stderr.isTTY && process.stderr.hasColors(),
    translateTime: 'SYS:yyyy-mm-dd HH:MM:ss.l o',
    hideObject: true,
    messageFormat: sentence,
  })
}

/** The sentence, with the resource or plugin before it and an error's stack after it. */
function sentence({ plugin, resource = plugin, msg, err }: Record<string, unknown>): string {
  const stack = typeof err === 'object' && err !== null && 'stack' in err ? `\n${err.stack}` : ''
  return `${resource === undefined ? '' : `${oneLine(String(resource))}: `}${oneLine(String(msg))}${stack}`
}

/** The lines that a plugin prints go to the log, since standard output belongs to the results of commands. */
import type { Readable } from 'node:stream'
import type { PluginLog } from '@livery/core/plugin'
import { MAX_TEXT } from './wire-error.ts'

/** Logs up to 20,000 characters of each line once it ends, without PEM blocks: a single line of one would not be recognised as part of a key. */
export function logPrinted(output: Readable, log: Pick<PluginLog, 'debug'>): void {
  let rest = ''
  let isInPem = false
  output.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = (lines.pop() ?? '').slice(0, MAX_TEXT)
    for (const line of lines) {
      const wasInPem = isInPem
      if (line.includes('-----BEGIN ')) isInPem = true
      if (line.includes('-----END ')) isInPem = false
      if (!wasInPem) log.debug(`it printed: ${line.slice(0, MAX_TEXT)}`)
    }
  })
}

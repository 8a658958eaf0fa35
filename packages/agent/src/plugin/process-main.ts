/** The main module of a plugin's process: it loads the module, and answers the agent for it, while the agent lives. */
import { Socket } from 'node:net'
import type { PluginKind } from '@livery/core/plugin'
import { CAError } from '@livery/core/plugin'
import { loadModule } from './load-module.ts'
import { decodeFrame, encodeFrame, MAX_AGENT_FRAME, MAX_CHILD_FRAME, readFrames } from './process-frames.ts'
import type { Resolved } from './resolve-module.ts'
import { servePlugin } from './serve-plugin.ts'
import type { Port } from './two-way-calls.ts'
import { toWire } from './wire-error.ts'

const { kind, found }: { readonly kind: PluginKind; readonly found: Resolved } = JSON.parse(process.argv[2] ?? '')
// Bound before the plugin can replace it.
const exit = process.exit.bind(process)
const channel = new Socket({ fd: 3, readable: true, writable: true })
const listeners: ((message: unknown) => void)[] = []

const port: Port = {
  postMessage(message) {
    const frame = encodeFrame(message)
    if (frame.length > MAX_CHILD_FRAME)
      throw new CAError(
        'bad-response',
        `The plugin gave ${frame.length} bytes, more than the ${MAX_CHILD_FRAME} of one message.`,
      )
    channel.write(frame, () => frame.fill(0))
  },
  on: (_, listener) => listeners.push(listener),
}

process.on('uncaughtException', error => {
  channel.write(encodeFrame({ kind: 'crash', error: toWire(error) }), () => exit(1))
})
channel.on('error', () => exit(1))
channel.on('close', () => exit(0))

servePlugin(kind, 'href' in found ? loadModule(kind, found.href) : Promise.resolve({ faults: [found.fault] }), port)
for await (const body of readFrames(channel, MAX_AGENT_FRAME)) {
  const message = decodeFrame(body)
  for (const listener of listeners) listener(message)
}

/** One life of a plugin's process: it is not trusted, and has no rights to files, processes or addons. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { extname } from 'node:path'
import { Duplex } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type PluginLog, systemErrorCode } from '@livery/core/plugin'
import { checkChildMessage } from './child-message.ts'
import { inheritedDescriptors } from './inherited-descriptors.ts'
import type { AgentMethods, PluginMethods, PluginModule } from './messages.ts'
import { logPrinted } from './printed-lines.ts'
import { decodeFrame, encodeFrame, MAX_CHILD_FRAME, readFrames } from './process-frames.ts'
import { readableFolders } from './readable-folders.ts'
import { resolveModule } from './resolve-module.ts'
import { Peer } from './two-way-calls.ts'
import { toWire } from './wire-error.ts'

/** MiB; a few times the need of a plugin with a large client library. */
const MAX_HEAP = 256
/** Bytes that may wait for a process that does not read. */
const MAX_BACKLOG = 67_108_864
/** Calls of a plugin that may wait for the agent's answer, each of at most 4 KiB. */
const MAX_CALLS = 4_096
/** The process's descriptor of the socket pair to the agent. */
const CHANNEL = 3

/** Disposal stops the process, however busy it is. */
export class PluginProcess implements AsyncDisposable {
  readonly peer: Peer<PluginMethods>
  /** Resolves once it has ended, with how, as in "crashed: out of luck". The listener closes `peer`. */
  readonly ended: Promise<string>
  readonly #child: ChildProcess | undefined
  #listener: (message: unknown) => void = () => {}
  /** Why the agent killed it, or its own report before it ended. */
  #reason: string | undefined

  /** Never throws: a process that cannot be started counts as ended. */
  constructor(module: PluginModule, methods: Partial<AgentMethods>, log: Pick<PluginLog, 'debug'>) {
    const child = start(module)
    const channel = child instanceof Error ? undefined : child.stdio[CHANNEL]
    const port = {
      postMessage: (message: unknown) => this.#send(channel, message),
      on: (_: 'message', listener: (message: unknown) => void) => {
        this.#listener = listener
      },
    }
    this.peer = new Peer(port, methods, MAX_CALLS)
    if (child instanceof Error) {
      this.ended = Promise.resolve(notStarted(child, module))
      return
    }
    this.#child = child
    child.on('error', () => {}) // the first one is awaited below
    this.ended = this.#untilEnd(child, module)
    for (const output of [child.stdout, child.stderr]) if (output) logPrinted(output, log)
    if (channel instanceof Duplex) void this.#receive(channel)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop()
    await this.ended
  }

  #send(channel: unknown, message: unknown): void {
    if (!(channel instanceof Duplex) || channel.destroyed) return
    const frame = encodeFrame(message)
    channel.write(frame, () => frame.fill(0))
    if (channel.writableLength > MAX_BACKLOG) this.#kill(`left more than ${MAX_BACKLOG} bytes unread`)
  }

  /** Takes one message per turn of the loop: a flood waits in its sender, and other work has turns in between. */
  async #receive(channel: Duplex): Promise<void> {
    channel.on('error', () => {}) // it has ended, which is noticed elsewhere
    try {
      for await (const body of readFrames(channel, MAX_CHILD_FRAME)) {
        const message = checkChildMessage(decodeFrame(body))
        if (message.kind === 'crash') this.#reason = `crashed: ${message.error.message}`
        else this.#listener(message)
        await setImmediate()
      }
    } catch (error) {
      if (!isClosed(error)) this.#kill(`sent a message that is refused: ${toWire(error).message}`)
    }
  }

  #kill(reason: string): void {
    this.#reason ??= reason
    this.#stop()
  }

  /** Closing its channel is all that works without CAP_KILL, and ends it unless it is busy. */
  #stop(): void {
    this.#child?.kill('SIGKILL')
    const channel = this.#child?.stdio[CHANNEL]
    if (channel instanceof Duplex) channel.destroy()
  }

  async #untilEnd(child: ChildProcess, module: PluginModule): Promise<string> {
    try {
      const [code, signal]: [number | null, NodeJS.Signals | null] = await closed(child)
      return this.#reason ?? endText(code, signal)
    } catch (error) {
      return notStarted(error, module)
    }
  }
}

async function closed(child: ChildProcess): Promise<[number | null, NodeJS.Signals | null]> {
  const [code, signal] = await once(child, 'close')
  return [code, signal]
}

/** The process inherits nothing: no variable, only the descriptors of `stdio`, no terminal, no supplementary group. */
function start(module: PluginModule): ChildProcess | Error {
  // The name of this file shows whether it runs from source; the bundle is a folder beside `plugin`.
  const extension = extname(import.meta.url)
  const entry = fileURLToPath(new URL(`../plugin/process-main${extension}`, import.meta.url))
  const found = resolveModule(module)
  const rights = readableFolders('href' in found ? fileURLToPath(found.href) : undefined)
  const args = [
    '--permission',
    ...rights.map(folder => `--allow-fs-read=${folder}`),
    // Some versions of Node also restrict the network, over which the CA is reached. Node warns at each start that this is experimental.
    ...(process.allowedNodeEnvironmentFlags.has('--allow-net')
      ? ['--allow-net', '--disable-warning=ExperimentalWarning']
      : []),
    '--disable-sigusr1',
    `--max-old-space-size=${MAX_HEAP}`,
    ...(extension === '.ts' ? ['--conditions=@livery/source'] : []),
    entry,
    JSON.stringify({ kind: module.kind, found }),
  ]
  try {
    return withStdio(stdio =>
      spawn(process.execPath, args, { ...module.user, cwd: '/', env: {}, stdio, detached: true }),
    )
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

/** Opens /dev/null in place of each inherited descriptor. */
function withStdio(use: (stdio: ('ignore' | 'pipe' | number)[]) => ChildProcess): ChildProcess {
  const stdio: ('ignore' | 'pipe' | number)[] = ['ignore', 'pipe', 'pipe', 'pipe']
  const inherited = inheritedDescriptors().filter(descriptor => descriptor > CHANNEL)
  if (inherited.length === 0) return use(stdio)
  const nothing = openSync('/dev/null', 'r+')
  try {
    while (stdio.length <= Math.max(...inherited)) stdio.push(inherited.includes(stdio.length) ? nothing : 'ignore')
    return use(stdio)
  } finally {
    closeSync(nothing)
  }
}

function notStarted(error: unknown, { user }: PluginModule): string {
  const { message } = toWire(error)
  if (!user) return `could not be started: ${message}`
  const remedy = 'Let the agent run as root with CAP_SETUID, CAP_SETGID and CAP_KILL'
  return `could not be started as user ${user.uid}, group ${user.gid}: ${message}. ${remedy}`
}

function endText(code: number | null, signal: NodeJS.Signals | null): string {
  // V8 ends a process like this when its heap is full.
  if (signal === 'SIGABRT' || code === 134) return `was aborted (it used more than ${MAX_HEAP} MiB of memory?)`
  return signal === null ? `ended its process (exit code ${code})` : `was ended by ${signal}`
}

function isClosed(error: unknown): boolean {
  const code = systemErrorCode(error)
  return code === 'ECONNRESET' || code === 'EPIPE' || code === 'ERR_STREAM_PREMATURE_CLOSE'
}

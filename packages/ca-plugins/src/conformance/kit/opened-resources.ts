/** Notes what the code of a case opens: timers, watchers, sockets and programs, each with the line that opened it, and the open files of the process. */
import { AsyncLocalStorage, createHook } from 'node:async_hooks'
import { fstatSync, readdirSync, readlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface Opened {
  /** `timer`, `program`. */
  readonly kind: string
  /** `/app/index.js:12:5`; empty if only Node.js and libraries are on the stack. */
  readonly openedAt: string
  readonly resource: object
}

/** Types of async_hooks that stay until they are closed. The others are single operations. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ['FSEVENTWRAP', 'file watcher'],
  ['PIPESERVERWRAP', 'pipe server'],
  ['PIPEWRAP', 'pipe'],
  ['PROCESSWRAP', 'program'],
  ['SIGNALWRAP', 'signal handler'],
  ['STATWATCHER', 'file watcher'],
  ['TCPSERVERWRAP', 'TCP server'],
  ['TCPWRAP', 'TCP connection'],
  ['Timeout', 'timer'],
  ['UDPWRAP', 'UDP socket'],
  ['WORKER', 'thread'],
])
const PROGRAM = 'program'
/** The operation that connects a socket: its trigger is the socket. A socket that a server accepts and the pipe of a program have none. */
const CONNECTS = new Set(['PIPECONNECTWRAP', 'TCPCONNECTWRAP'])
/** A plugin may be behind the frames of a library. */
const STACK_DEPTH = 50

/**
 * Runs `use`, and notes what it and all that it starts opens. Another thread's work is not seen. In the end programs that
 * are still running are killed, and nothing else that is still open keeps the process alive any longer.
 */
export async function noteOpened<T>(use: (opened: OpenedResources) => Promise<T>): Promise<T> {
  const opened = new OpenedResources()
  // Not `using`: Node.js 24.0 has been seen to leave it out.
  try {
    return await opened.run(() => use(opened))
  } finally {
    opened.release()
  }
}

export class OpenedResources {
  readonly #context = new AsyncLocalStorage<true>()
  readonly #open = new Map<number, Opened>()
  readonly #connected = new Set<number>()
  readonly #hook = createHook({
    init: (id, type, trigger, resource) => {
      if (CONNECTS.has(type)) this.#connected.add(trigger)
      const kind = KINDS.get(type)
      if (kind === undefined || !this.#context.getStore()) return
      const trace = deepTrace()
      this.#open.set(id, {
        kind,
        resource,
        get openedAt() {
          return callerOutsideKit(trace)
        },
      })
    },
    destroy: id => void this.#open.delete(id),
    // A request makes many, and none stays open.
    trackPromises: false,
  }).enable()

  run<T>(use: () => Promise<T>): Promise<T> {
    return this.#context.run(true, use)
  }

  /** All that is open at present, whether or not it keeps the process alive. */
  open(): readonly Opened[] {
    return [...this.#open.values()]
  }

  programs(): readonly Opened[] {
    return this.open().filter(({ kind }) => kind === PROGRAM)
  }

  /** The connections that this process has made, without those that it accepted. */
  connections(): readonly Opened[] {
    return [...this.#open].filter(([id]) => this.#connected.has(id)).map(([, opened]) => opened)
  }

  release(): void {
    this.#hook.disable()
    for (const { resource } of this.programs()) kill(resource)
    for (const { resource } of this.open())
      if ('unref' in resource && typeof resource.unref === 'function') resource.unref()
  }
}

/** `program (pid 4711), started at /app/index.js:12:5` */
export function describe({ kind, openedAt, resource }: Opened): string {
  const pid = pidOf(resource)
  return `${kind}${pid === undefined ? '' : ` (pid ${pid})`}${openedAt && `, opened at ${openedAt}`}`
}

/** The files and folders that are open in this process: descriptor and path. Empty where the system does not list them. */
export function openFiles(): ReadonlySet<string> {
  const files = new Set<string>()
  for (const descriptor of descriptors()) {
    try {
      const file = fstatSync(Number(descriptor))
      if (file.isFile() || file.isDirectory()) files.add(`descriptor ${descriptor}${pathOf(descriptor)}`)
    } catch {
      // It was the one that listed the others.
    }
  }
  return files
}

function descriptors(): readonly string[] {
  try {
    return readdirSync('/dev/fd')
  } catch {
    return []
  }
}

function pathOf(descriptor: string): string {
  try {
    return ` (${readlinkSync(`/proc/self/fd/${descriptor}`)})`
  } catch {
    return ''
  }
}

function pidOf(resource: object): number | undefined {
  return 'pid' in resource && typeof resource.pid === 'number' ? resource.pid : undefined
}

function kill(program: object): void {
  const pid = pidOf(program)
  try {
    if (pid !== undefined) process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}

/** The text is made on reading: most resources are closed unseen. */
function deepTrace(): Error {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = STACK_DEPTH
  const trace = new Error()
  Error.stackTraceLimit = stackTraceLimit
  return trace
}

/** The first place on the stack that is neither the kit's nor a library's, `/app/index.js:12:5`; empty if there is none. */
export function callerOutsideKit({ stack = '' }: Error): string {
  // Not computed at the top of the module: a bundle moves that code to another file.
  const kit = fileURLToPath(new URL('..', import.meta.url))
  const frame = stack.split('\n').find(each => isOutside(kit, each))
  return frame?.replace(/^.*?\(?(?:file:\/\/)?(\/[^()]*)\)?$/, '$1') ?? ''
}

function isOutside(folder: string, frame: string): boolean {
  return (
    /^\s+at (?:.*[( ])?(?:file:\/\/)?\//.test(frame) && !frame.includes(folder) && !frame.includes('/node_modules/')
  )
}

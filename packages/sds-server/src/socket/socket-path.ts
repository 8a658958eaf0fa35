/** Checks a path before a socket appears there. */
import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { MAX_SOCKET_PATH_BYTES, makeFolder, systemErrorCode, UntrustedPathError } from '@livery/core/plugin'
import type { PlacementOptions } from './placed-socket.ts'
import { SdsServerError } from './sds-server-error.ts'

const FOLDER_MODE = 0o750
/** Others may pass through the folder to a socket for them, but not list it. */
const FOLDER_MODE_FOR_OTHERS = 0o751
const CONNECT_BY_OTHERS = 0o002

/** The occupant of a path: `live` accepts connections, `stale` is a socket without a process. */
export type PathOccupant = 'nothing' | 'stale' | 'live'

/** Throws an `SdsServerError` (`path-too-long`) for a path that the kernel would not take. */
export function checkPathLength(path: string): void {
  const bytes = Buffer.byteLength(path)
  if (bytes <= MAX_SOCKET_PATH_BYTES) return
  throw new SdsServerError(
    'path-too-long',
    `Cannot listen on ${path}: the path has ${bytes} bytes, and the path of a UNIX socket at most ${MAX_SOCKET_PATH_BYTES}; choose a shorter one`,
  )
}

/**
 * Makes the folder if there is none, with mode 0750, or 0751 where the socket gets an owner or group, or everybody may
 * connect. Refuses one in which somebody else could replace the socket.
 */
export async function prepareDirectory({ path, owner, group, mode = 0 }: PlacementOptions): Promise<void> {
  const directory = dirname(path)
  const isForOthers = owner !== undefined || group !== undefined || (mode & CONNECT_BY_OTHERS) !== 0
  try {
    makeFolder(directory, isForOthers ? FOLDER_MODE_FOR_OTHERS : FOLDER_MODE)
  } catch (error) {
    if (!(error instanceof UntrustedPathError)) throw await bindFailure(path, error)
    throw untrustedFolder(path, error)
  }
}

/** Suggests a folder below a Kubernetes emptyDir, which everybody may write to: the new folder belongs to this process alone. */
function untrustedFolder(path: string, cause: UntrustedPathError): SdsServerError {
  const action = `Cannot listen on ${path} as uid ${ownUid()}`
  if (cause.reason !== 'untrusted') return new SdsServerError('bind-failed', `${action}: ${cause.message}`, { cause })
  const below = join(cause.component, 'livery', basename(path))
  const hint =
    cause.component === dirname(path)
      ? ` Then too, a path in a folder below it is safer, such as ${below}: Livery makes that folder with mode 0750.`
      : ''
  const message = `${action}: others could replace the socket: ${cause.message}${hint}`
  return new SdsServerError('unsafe-directory', message, { cause })
}

/** Inspects the path; throws an `SdsServerError` (`not-a-socket`) for a file that must not be replaced. */
export async function inspectPath(path: string): Promise<PathOccupant> {
  const stats = await lstatIfPresent(path)
  if (!stats) return 'nothing'
  if (!stats.isSocket()) {
    throw new SdsServerError(
      'not-a-socket',
      `Cannot listen on ${path}: it is ${kindOf(stats)} of uid ${stats.uid}, and only a socket is ever replaced; ` +
        'move it away or choose another path',
    )
  }
  return await probe(path)
}

/** The file itself, not what a link points to; `undefined` if there is none. */
export async function lstatIfPresent(path: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true })
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return undefined
    throw await bindFailure(path, error)
  }
}

/** A `bind-failed` error with the user, and the state of the folder; an `SdsServerError` stays as it is. */
export async function bindFailure(path: string, cause: unknown): Promise<SdsServerError> {
  if (cause instanceof SdsServerError) return cause
  const directory = dirname(path)
  const remedy = await stat(directory).then(
    stats => `Give that uid write access to ${describe(directory, stats)}`,
    () => `Make the folder ${directory} for that uid`,
  )
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new SdsServerError(
    'bind-failed',
    `Cannot listen on ${path} as uid ${ownUid()}: ${reason}. ${remedy}, or choose another path`,
    { cause },
  )
}

function probe(path: string): Promise<PathOccupant> {
  const { promise, resolve } = Promise.withResolvers<PathOccupant>()
  const socket = connect(path)
  socket.on('connect', () => resolve('live'))
  // Only ECONNREFUSED proves that nobody listens: EAGAIN is a full queue, EACCES proves nothing.
  socket.on('error', error => {
    const code = systemErrorCode(error)
    resolve(code === 'ECONNREFUSED' ? 'stale' : code === 'ENOENT' ? 'nothing' : 'live')
  })
  return promise.finally(() => socket.destroy())
}

function describe(path: string, stats: { readonly mode: number; readonly uid: number; readonly gid: number }): string {
  const mode = (stats.mode & 0o7777).toString(8).padStart(4, '0')
  return `${path} (mode ${mode}, owner ${stats.uid}:${stats.gid})`
}

function kindOf(stats: BigIntStats): string {
  if (stats.isSymbolicLink()) return 'a symbolic link'
  if (stats.isDirectory()) return 'a directory'
  return stats.isFile() ? 'a file' : 'a device or pipe'
}

function ownUid(): number {
  return process.getuid?.() ?? -1
}

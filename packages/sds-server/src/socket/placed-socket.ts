/** Binds a socket where nobody else can reach it, and moves it to its path when its mode and owner are set. */
import { once } from 'node:events'
import { type BigIntStats, constants, existsSync, lstatSync, unlinkSync } from 'node:fs'
import { chmod, chown, type FileHandle, link, lstat, mkdtemp, open, rename, rmdir, unlink } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { basename, dirname, join } from 'node:path'
import { MAX_SOCKET_PATH_BYTES, systemErrorCode } from '@livery/core/plugin'
import { SdsServerError } from './sds-server-error.ts'

export interface PlacementOptions {
  readonly path: string
  /** Default: 0o660. */
  readonly mode?: number | undefined
  /** Numeric; default: the user of the process. */
  readonly owner?: number | undefined
  /** Numeric; default: the group of the process. */
  readonly group?: number | undefined
}

/** A listening server and its socket file. */
export interface Listener {
  readonly server: Server
  readonly file: BigIntStats
  /** Where the file was made. */
  readonly folder: BigIntStats
}

const HAS_PROC = existsSync('/proc/self/fd')
export const DEFAULT_MODE = 0o660
/** The default maximum of the kernel: after a restart the Envoys of all pods connect at once. */
const BACKLOG = 4096

/**
 * Binds under a private name and moves the socket to the path, replacing `occupant`. Both folders are reached through open
 * descriptors, so that renaming them has no effect. Rejects with the system's error, EEXIST if anything but `occupant` is
 * at the path.
 */
export async function bindAndPlace(
  { path, mode = DEFAULT_MODE, owner = -1, group = -1 }: PlacementOptions,
  occupant: BigIntStats | undefined,
  onListening: (server: Server) => void,
): Promise<Listener> {
  await using folder = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY)
  // Nobody else can reach the socket here until its mode is set.
  const privateName = await mkdtemp(`${through(folder, dirname(path))}/.sds-`)
  const server = createServer()
  try {
    await using directory = await openOwn(privateName)
    const privatePath = join(dirname(path), basename(privateName))
    const socket = join(through(directory, privatePath), 's')
    await bind(server, join(privatePath, 's'), socket)
    onListening(server)
    await chmod(socket, mode)
    await giveTo(socket, path, owner, group)
    const place = join(through(folder, dirname(path)), basename(path))
    await moveTo(place, socket, occupant)
    return { server, file: await lstat(place, { bigint: true }), folder: await folder.stat({ bigint: true }) }
  } catch (error) {
    server.close()
    throw error
  } finally {
    await removeDirectory(privateName)
  }
}

/** -1 leaves the owner, or the group, as it is. Rejects with an `SdsServerError` (`bind-failed`). */
async function giveTo(socket: string, path: string, owner: number, group: number): Promise<void> {
  if (owner === -1 && group === -1) return
  try {
    await chown(socket, owner, group)
  } catch (cause) {
    const to = [owner === -1 ? [] : [`owner ${owner}`], group === -1 ? [] : [`group ${group}`]].flat().join(' and ')
    throw new SdsServerError(
      'bind-failed',
      `Cannot listen on ${path} as uid ${process.geteuid?.()}: the kernel refused to give the socket to ${to} ` +
        `(${systemErrorCode(cause)}); only root may give it to another user, and other users only to a group that they are in: ` +
        'run as root or with the capabilities CHOWN and DAC_OVERRIDE, or set a group of this process and a mode such as "0660"',
      { cause },
    )
  }
}

/** A name that leads to the open folder even if it is renamed. Without /proc it is the path itself. */
function through(folder: FileHandle, path: string): string {
  return HAS_PROC ? `/proc/self/fd/${folder.fd}` : path
}

/** Opens a folder that was just made, closed to others; rejects if another one is there now. */
async function openOwn(path: string): Promise<FileHandle> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
  const { uid } = await directory.stat()
  if (uid !== (process.geteuid?.() ?? uid)) {
    await directory.close()
    throw Object.assign(new Error(`somebody else has replaced ${path}`), { code: 'EACCES' })
  }
  await directory.chmod(0o700)
  return directory
}

async function removeDirectory(path: string): Promise<void> {
  for (const remove of [() => unlink(join(path, 's')), () => rmdir(path)]) await remove().catch(() => {}) // Moved to its place, or never made. An empty folder that stays does no harm.
}

/** The private name is longer than the path; if it is too long, the open directory shortens it. */
async function bind(server: Server, privatePath: string, throughDirectory: string): Promise<void> {
  const path = Buffer.byteLength(privatePath) <= MAX_SOCKET_PATH_BYTES ? privatePath : throughDirectory
  server.listen({ path, backlog: BACKLOG })
  await once(server, 'listening')
}

/** Replaces only the inspected file; rejects with EEXIST if another file is there by then. */
async function moveTo(to: string, from: string, occupant: BigIntStats | undefined): Promise<void> {
  if (occupant) {
    const present = await lstat(to, { bigint: true }).catch(() => undefined)
    if (present && !isSameFile(present, occupant)) throw Object.assign(new Error('it changed'), { code: 'EEXIST' })
    return await rename(from, to)
  }
  try {
    await link(from, to)
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') throw error
    // Some file systems have no links to sockets.
    await rename(from, to)
  }
}

/** Looks and removes in one turn of the event loop, so that a successor hardly fits in between. */
export function closeListener({ server, file }: Listener, path: string): void {
  server.close()
  try {
    const present = lstatSync(path, { bigint: true, throwIfNoEntry: false })
    if (isSameFile(present, file)) unlinkSync(path)
  } catch {
    // Closing continues: a file that cannot be removed is a stale socket, which the next server replaces.
  }
}

/** An inode number is used again at once on some file systems, so the time of birth counts too. */
export function isSameFile(a: BigIntStats | undefined, b: BigIntStats): boolean {
  return a !== undefined && a.dev === b.dev && a.ino === b.ino && a.birthtimeNs === b.birthtimeNs
}

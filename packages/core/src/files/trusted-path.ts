/**
 * Whether only root, this process's user and the users whom they trust can change the target of a path.
 *
 * A check that passes stays true. Each component is an entry of a folder in which nobody else can replace it, so
 * between the check and the use only trusted users can change anything.
 */

import { accessSync, chmodSync, constants, lstatSync, mkdirSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { systemErrorCode } from '../text/system-error-code.ts'

export interface PathTrust {
  /**
   * `own` (default): every component belongs to root or to the user of this process. `delegated`: for files that the
   * operator names. A component may also belong to a user to whom one of them has given it, in a folder where nobody
   * else could have put it. A link that such a user could have made, symbolic or hard, leads only to that user's own
   * files, since the agent may read more than the user.
   */
  readonly owners?: 'own' | 'delegated'
  /** Whether the folders of {@link shareFolders} are trusted. Default: true; false for files that can name code. */
  readonly shared?: boolean
}

/** The part of `fstat` that says which file is open, and who can write to it. */
export interface OpenedFile {
  readonly dev: number | bigint
  readonly ino: number | bigint
  readonly uid: number | bigint
  readonly gid: number | bigint
  readonly mode: number | bigint
  readonly nlink: number | bigint
}

/** Names the component, its mode and owner, the reason and the remedy. */
export class UntrustedPathError extends Error {
  override readonly name = 'UntrustedPathError'
  /** Absolute: a folder, link or file on the way. */
  readonly component: string
  /** `not-a-directory` is a mistake, and `untrusted` may be an attack. */
  readonly reason: 'untrusted' | 'not-a-directory'

  constructor(component: string, message: string, reason: UntrustedPathError['reason'] = 'untrusted') {
    super(message)
    this.component = component
    this.reason = reason
  }
}

interface Component {
  readonly path: string
  readonly stats: Pick<Stats, 'uid' | 'gid' | 'mode' | 'nlink'> & Partial<Pick<Stats, 'dev' | 'ino'>>
}

const GROUP_WRITES = 0o020
const OTHERS_WRITE = 0o002
/** The kernel's limit (path_resolution(7)). */
const MAX_LINKS = 40

let sharedFolders: ReadonlySet<string> = new Set()

/**
 * Declares folders whose writers the operator trusts though anybody may write there: an emptyDir of Kubernetes, which
 * only the containers of one pod see. Replaces the earlier list, for the whole process.
 */
export function shareFolders(folders: readonly string[]): void {
  sharedFolders = new Set(folders.map(folder => resolve(folder)))
}

/**
 * Throws an {@link UntrustedPathError} if anybody else can add, replace or remove files in the folder `path`, or lead
 * the path elsewhere; a system error if it cannot be looked at.
 */
export function checkFolder(path: string, trust: PathTrust = {}): void {
  new Walk(trust).folder(path)
}

/** As {@link checkFolder}, and makes what is missing of `path` with `mode`, whatever the umask. */
export function makeFolder(path: string, mode: number): void {
  new Walk({}, mode).folder(path)
}

/**
 * Throws an {@link UntrustedPathError} if anybody else can change `opened`, which was opened at `path`, or could have put
 * it there; or if there is another file now.
 */
export function checkFile(path: string, opened: OpenedFile, trust: PathTrust = {}): void {
  new Walk(trust).file(path, opened)
}

/** One look at a path, component by component from `/`. */
class Walk {
  readonly #trust: PathTrust
  readonly #modeOfNew: number | undefined
  readonly #owners: Set<number | undefined>
  #links = 0
  /** The first link that others than root and this user could have put, and who. */
  #delegatedLink: { readonly path: string; readonly owners: readonly (number | undefined)[] } | undefined

  constructor(trust: PathTrust, modeOfNew?: number) {
    this.#trust = trust
    this.#modeOfNew = modeOfNew
    this.#owners = new Set([0, process.geteuid?.()])
  }

  folder(path: string): void {
    const folder = this.#follow(path)
    if (!isDirectory(folder)) throw noDirectory(folder)
    if (!this.#isWritableByOthers(folder)) return
    const remedy = isSticky(folder) ? 'Use a separate folder below it' : `Run: chmod go-w ${folder.path}`
    throw refusal(folder, `can be written by others. ${remedy}${this.#shareHint(folder)}`)
  }

  file(path: string, { dev, ino, uid, gid, mode, nlink }: OpenedFile): void {
    const found = this.#follow(path)
    const stats = { uid: Number(uid), gid: Number(gid), mode: Number(mode), nlink: Number(nlink) }
    const file = { path: found.path, stats }
    if (found.stats.dev !== Number(dev) || found.stats.ino !== Number(ino))
      throw refusal(file, 'was replaced while it was opened. Try again')
    const others = this.#delegates()
    this.#checkOwner(file)
    this.#checkLinked(file)
    this.#checkHardLinks(file, others)
    if (this.#isWritableByOthers(file))
      throw refusal(file, `can be written by others. Make sure of its content, then run "chmod go-w ${file.path}"`)
  }

  /** The last component, as the kernel would find it. */
  #follow(path: string): Component {
    const names = namesIn(isAbsolute(path) ? path : join(process.cwd(), path))
    const root = componentAt('/')
    let folders = [this.#enter(root)]
    for (let name = names.shift(); name !== undefined; name = names.shift()) {
      const folder = folders.at(-1) ?? root
      if (name === '..') {
        if (folders.length > 1) folders.pop()
        continue
      }
      const entry = this.#entry(folder, name)
      if (isLink(entry)) {
        this.#delegatedLink ??= this.#linkBy(entry)
        const target = this.#readLink(entry)
        if (isAbsolute(target)) folders = [root]
        names.unshift(...namesIn(target))
      } else if (isDirectory(entry)) folders.push(this.#enter(entry))
      else if (names.length === 0) return entry
      else throw noDirectory(entry)
    }
    return folders.at(-1) ?? root
  }

  #entry(folder: Component, name: string): Component {
    const path = join(folder.path, name)
    const isShared = this.#isShared(folder)
    const isOpen = !isShared && this.#isWritableByOthers(folder)
    if (isOpen && !isSticky(folder))
      throw refusal(
        folder,
        `can be written by others, who can replace ${path}. Run: chmod go-w ${folder.path}${this.#shareHint(folder)}`,
      )
    const entry = this.#lookOrMake(path)
    if (isOpen && !this.#owners.has(entry.stats.uid))
      throw refusal(entry, `was put there by another user: everybody can write to ${folder.path}. Use another path`)
    if (isOpen && !isDirectory(entry) && entry.stats.nlink > 1)
      throw refusal(entry, `has ${hardLinks(entry)}, and everybody who can write to ${folder.path} ${MADE_IT}`)
    return entry
  }

  #lookOrMake(path: string): Component {
    if (this.#modeOfNew === undefined) return componentAt(path)
    const stats = lstatSync(path, { throwIfNoEntry: false })
    if (stats) return { path, stats }
    makeDirectory(path, this.#modeOfNew)
    return componentAt(path)
  }

  #enter(folder: Component): Component {
    this.#checkOwner(folder)
    return folder
  }

  #checkOwner(component: Component): void {
    const { uid } = component.stats
    if (this.#trust.owners === 'delegated') this.#owners.add(uid)
    if (process.geteuid === undefined || this.#owners.has(uid)) return
    const self = process.geteuid()
    const remedy = `Run: chown ${self} ${component.path}, or use another path`
    throw refusal(component, `belongs to uid ${uid}, and this process runs as ${self}. ${remedy}`)
  }

  /** The users to whom a component on the way so far belongs, without root and this user. */
  #delegates(): (number | undefined)[] {
    const self = process.geteuid?.()
    return [...this.#owners].filter(uid => uid !== 0 && uid !== self)
  }

  #linkBy({ path }: Component): { path: string; owners: (number | undefined)[] } | undefined {
    const owners = this.#delegates()
    return owners.length > 0 ? { path, owners } : undefined
  }

  #checkLinked(file: Component): void {
    const link = this.#delegatedLink
    const other = link?.owners.find(uid => uid !== file.stats.uid)
    if (link === undefined || other === undefined) return
    throw refusal(
      file,
      `does not belong to uid ${other}, who may have made the link ${link.path} to it. Name the file itself`,
    )
  }

  /** Where fs.protected_hardlinks is 0, a user can link a file that the user may not even read. */
  #checkHardLinks(file: Component, others: readonly (number | undefined)[]): void {
    const other = others.find(uid => uid !== file.stats.uid)
    if (file.stats.nlink > 1 && other !== undefined)
      throw refusal(file, `has ${hardLinks(file)}, and uid ${other} ${MADE_IT}`)
  }

  #readLink({ path, stats }: Component): string {
    if (++this.#links > MAX_LINKS)
      throw refusal({ path, stats }, `is one of more than ${MAX_LINKS} symbolic links. Name where they lead`)
    return readlinkSync(path)
  }

  #isWritableByOthers(component: Component): boolean {
    const { uid, gid, mode } = component.stats
    if (process.geteuid === undefined || this.#isShared(component)) return false
    if (!(mode & OTHERS_WRITE) && (!(mode & GROUP_WRITES) || isPrivateGroup(gid, uid))) return false
    return !isReadOnly(component.path)
  }

  #isShared({ path }: Component): boolean {
    return this.#trust.shared !== false && sharedFolders.has(path)
  }

  #shareHint({ path }: Component): string {
    return this.#trust.shared === false
      ? ''
      : `; if everyone with write access is trusted, add ${path} to sharedFolders`
  }
}

const MADE_IT = 'could have made this one. Put a copy there instead'

function hardLinks({ stats }: Component): string {
  return `${stats.nlink} hard links`
}

function namesIn(path: string): string[] {
  return path.split('/').filter(name => name !== '' && name !== '.')
}

function componentAt(path: string): Component {
  return { path, stats: lstatSync(path) }
}

function makeDirectory(path: string, mode: number): void {
  try {
    mkdirSync(path, mode)
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return
    throw error
  }
  // `mkdir` applies the umask.
  chmodSync(path, mode)
}

/** Whether the mount is read-only, as for ConfigMaps, whose mode 0777 is then harmless. */
function isReadOnly(path: string): boolean {
  try {
    accessSync(path, constants.W_OK)
    return false
  } catch (error) {
    return systemErrorCode(error) === 'EROFS'
  }
}

/**
 * Many systems give each user a private group, and a umask that lets it write. Never group 0: containers run in it
 * by default. A user or group that is not in the local files is not known to be private.
 */
function isPrivateGroup(gid: number, uid: number): boolean {
  if (gid === 0 || uid === 0) return false
  const accounts = rowsOf('/etc/passwd')
  const [owner, ...others] = accounts.filter(([, , id]) => Number(id) === uid)
  const groups = rowsOf('/etc/group').filter(([, , id]) => Number(id) === gid)
  if (!owner || others.length > 0 || groups.length === 0) return false
  const members = groups.flatMap(([, , , names = '']) => names.split(',')).filter(name => name !== '')
  const primary = accounts.filter(([, , , group]) => Number(group) === gid)
  return members.every(name => name === owner[0]) && primary.length === 1 && primary[0] === owner
}

function rowsOf(database: string): string[][] {
  try {
    return readFileSync(database, 'utf8')
      .split('\n')
      .map(line => line.split(':'))
  } catch {
    return []
  }
}

function isDirectory({ stats }: Component): boolean {
  return (stats.mode & constants.S_IFMT) === constants.S_IFDIR
}

function isLink({ stats }: Component): boolean {
  return (stats.mode & constants.S_IFMT) === constants.S_IFLNK
}

function isSticky({ stats }: Component): boolean {
  return isDirectory({ path: '', stats }) && (stats.mode & 0o1000) !== 0
}

function noDirectory(component: Component): UntrustedPathError {
  return new UntrustedPathError(
    component.path,
    `${describe(component)} is not a directory. Name another path.`,
    'not-a-directory',
  )
}

function refusal(component: Component, reason: string): UntrustedPathError {
  return new UntrustedPathError(component.path, `${describe(component)} ${reason}.`)
}

function describe({ path, stats: { mode, uid, gid } }: Component): string {
  const octal = (mode & 0o7777).toString(8).padStart(4, '0')
  return `${path} (mode ${octal}, owner ${uid}:${gid})`
}

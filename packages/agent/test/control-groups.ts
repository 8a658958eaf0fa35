/** Control groups that are made for one test, named as kubelet names those of pods, in the hierarchies of this machine. */
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { readPeerCgroups } from '@livery/native-keygen'

/** `unified`: version 2; `pids`: version 1, where a group can be renamed. */
type Hierarchy = 'unified' | 'pids'

const MOUNTS = readMounts()

/** Why tests with control groups cannot run here, or `false`. */
export const noControlGroups: string | false = reasonAgainst()

/** Why tests cannot rename groups here, or `false`. */
export const noRenames: string | false =
  noControlGroups ||
  (MOUNTS.pids ? false : 'needs the pids controller of cgroup v1: groups of version 2 cannot be renamed')

/** The id of a container. */
export const CONTAINER = '0123456789abcdef'.repeat(4)

/** The group of a container of a pod, below a root, as kubelet's cgroupfs driver and containerd name it. */
export function groupPath(uid: string): string {
  return `kubepods/burstable/pod${uid}/${CONTAINER}`
}

/** A folder of groups in which kubelet's would be. Disposing it removes them; the processes in them must have ended. */
export class ControlGroups implements AsyncDisposable {
  /** As `findPod` has a root. */
  readonly root = `livery-test-${process.pid}-${randomUUID()}`
  readonly #made: string[] = []

  /** Makes a group and those above it. `path` is below the root, and begins without a slash. */
  make(path: string, hierarchy: Hierarchy = 'unified'): string {
    return this.#make(join(this.mount(hierarchy), this.root, path))
  }

  /** Makes a group that is not below the root. */
  makeOutside(path: string, hierarchy: Hierarchy = 'unified'): string {
    return this.#make(join(this.mount(hierarchy), `${this.root}-outside`, path))
  }

  mount(hierarchy: Hierarchy): string {
    const mount = MOUNTS[hierarchy]
    if (mount === undefined) throw new Error(`no hierarchy ${hierarchy} is mounted`)
    return mount
  }

  /** For a group that was renamed. */
  forget(folder: string, renamed: string): void {
    this.#made.splice(this.#made.indexOf(folder), 1, renamed)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const folder of this.#made.sort((a, b) => b.length - a.length)) await remove(folder)
  }

  #make(folder: string): string {
    if (this.#made.includes(folder)) return folder
    if (dirname(folder) !== dirname(dirname(folder)) && !isMount(dirname(folder))) this.#make(dirname(folder))
    mkdirSync(folder)
    this.#made.push(folder)
    return folder
  }
}

/** Moves a process, as the runtime of a container does. */
export function enter(group: string, pid: number): void {
  writeFileSync(join(group, 'cgroup.procs'), String(pid))
}

function isMount(folder: string): boolean {
  return Object.values(MOUNTS).includes(folder)
}

/** A process that was killed leaves its group a moment later. */
async function remove(folder: string): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    try {
      return rmdirSync(folder)
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EBUSY')) throw error
      await delay(10)
    }
  }
  throw new Error(`${folder} is still in use`)
}

/** The mount points, by proc_pid_mountinfo(5). */
function readMounts(): { readonly [Name in Hierarchy]?: string } {
  if (process.platform !== 'linux') return {}
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  const find = (form: RegExp) => lines.find(line => form.test(line))?.split(' ')[4]
  const unified = find(/ - cgroup2 /)
  const pids = find(/ - cgroup .*\bpids\b/)
  return { ...(unified !== undefined && { unified }), ...(pids !== undefined && { pids }) }
}

function reasonAgainst(): string | false {
  if (!readPeerCgroups) return 'needs the addon, to read whose connection it is'
  const { unified } = MOUNTS
  if (unified === undefined) return 'needs cgroup v2, mounted'
  const probe = join(unified, `livery-test-${process.pid}-probe`)
  try {
    mkdirSync(probe)
    rmdirSync(probe)
    return false
  } catch (error) {
    return `needs root, to make control groups: ${error instanceof Error ? error.message : error}`
  }
}

/** Reads what Linux reports about processes under /proc: https://man7.org/linux/man-pages/man5/proc.5.html */
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** USER_HZ: fixed at 100 on every architecture that Node runs on. */
const TICKS_PER_SECOND = 100

/** CPU seconds (user and system, every thread) of all children of this process that have ended, in steps of 10 ms. */
export async function endedChildrenCpuSeconds(): Promise<number> {
  const [, , childrenUser = 0, childrenSystem = 0] = cpuTicks(await readFile('/proc/self/stat', 'utf8'))
  return (childrenUser + childrenSystem) / TICKS_PER_SECOND
}

/** CPU seconds (user and system, every thread) of a running process. */
export async function cpuSeconds(pid: number): Promise<number> {
  const [user = 0, system = 0] = cpuTicks(await readFile(`/proc/${pid}/stat`, 'utf8'))
  return (user + system) / TICKS_PER_SECOND
}

/** Resident memory (VmRSS) in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]
  if (kilobytes === undefined) throw new Error(`/proc/${pid}/status has no VmRSS: the process has ended`)
  return Number(kilobytes) * 1024
}

/** The ones of `flags` that the CPU has, such as `avx512ifma`; none outside Linux. */
export function cpuFlags(flags: readonly string[]): string[] {
  if (process.platform !== 'linux') return []
  const found = /^(?:flags|Features)\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(' ')
  return flags.filter(flag => found?.includes(flag))
}

/** The process and its descendants that still run; parents first. */
export function processTree(pid: number): number[] {
  const children = threadsOf(pid).flatMap(thread => {
    try {
      return readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').trim().split(/\s+/).filter(Boolean)
    } catch {
      return [] // the thread has ended meanwhile
    }
  })
  return [pid, ...children.flatMap(child => processTree(Number(child)))]
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return [] // the process has ended
  }
}

/** utime, stime, cutime and cstime (fields 14–17); the name before them may hold spaces and parentheses. */
function cpuTicks(line: string): number[] {
  return line
    .slice(line.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 15)
    .map(Number)
}

/** How many files the process may have open (RLIMIT_NOFILE): every connection is one, and so is every socket. */
import { readFileSync } from 'node:fs'

/** For what is no connection: the CA's, the log, certificates that are read, key generation. */
const OTHER_FILES = 128

/** The limits cannot be reached: the kernel refuses connections before. */
export interface DescriptorShortage {
  readonly available: number
  readonly wanted: number
  /** What is wrong and what to do, for the log. */
  readonly message: string
}

/** `undefined` where it cannot be told, as without /proc, and where there is no limit. */
export function readDescriptorLimit(): number | undefined {
  try {
    return parseDescriptorLimit(readFileSync('/proc/self/limits', 'utf8'))
  } catch {
    return undefined
  }
}

/** Of the text of proc_pid_limits(5). Node has raised the soft limit to the hard one when it started. */
export function parseDescriptorLimit(text: string): number | undefined {
  const [, soft] = /^Max open files +(\d+) /m.exec(text) ?? []
  return soft === undefined ? undefined : Number(soft)
}

/** `connections` are those that the largest socket may have: nobody expects all sockets to be full at once. */
export function descriptorShortage(
  available: number | undefined,
  sockets: number,
  connections: number,
): DescriptorShortage | undefined {
  const wanted = connections + sockets + OTHER_FILES
  if (available === undefined || available >= wanted) return undefined
  const message =
    `the process may open ${available} files, but limits.connections ${connections} needs ${wanted}: connections beyond ` +
    'will be refused; raise LimitNOFILE= of the unit, the ulimit of the container, or "ulimit -Hn", or lower limits.connections'
  return { available, wanted, message }
}

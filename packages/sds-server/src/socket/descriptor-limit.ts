/** The limit of open files (RLIMIT_NOFILE): every connection and every socket is one. */
import { readFileSync } from 'node:fs'

/** Descriptors for everything but callers: the CA, the log, certificate files, key generation. */
const OTHER_FILES = 128

/** The limits cannot be reached: the kernel refuses connections before. */
export interface DescriptorShortage {
  readonly available: number
  readonly wanted: number
  /** The problem and the remedy, for the log. */
  readonly message: string
}

/** `undefined` if there is no limit, or it is unknown, as without /proc. */
export function readDescriptorLimit(): number | undefined {
  try {
    return parseDescriptorLimit(readFileSync('/proc/self/limits', 'utf8'))
  } catch {
    return undefined
  }
}

/** Reads proc_pid_limits(5). Node raised the soft limit to the hard one when it started. */
export function parseDescriptorLimit(text: string): number | undefined {
  const [, soft] = /^Max open files +(\d+) /m.exec(text) ?? []
  return soft === undefined ? undefined : Number(soft)
}

/** `connections`: the limit of the largest socket. All sockets are not expected to be full at once. */
export function descriptorShortage(
  available: number | undefined,
  sockets: number,
  connections: number,
): DescriptorShortage | undefined {
  const wanted = connections + sockets + OTHER_FILES
  if (available === undefined || available >= wanted) return undefined
  const message =
    `the process is allowed ${available} open files, but limits.connections ${connections} needs ${wanted}: further connections ` +
    'will be refused; raise LimitNOFILE= of the unit, the ulimit of the container, or "ulimit -Hn", or lower limits.connections'
  return { available, wanted, message }
}

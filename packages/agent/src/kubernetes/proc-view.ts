/** Checks that this process sees the control groups of others in /proc, without which no caller can be identified. */
import { readFileSync, readlinkSync } from 'node:fs'
import { Fault } from '../schema/fault.ts'

const HIDDEN = 'Mount /proc without hidepid and subset=pid, or run the agent as root'

/** The text of this process's own `/proc/self/cgroup`, or why callers cannot be identified. `isInPod`: this process runs in one. */
export function readOwnCgroups(isInPod: boolean, proc = '/proc'): string | Fault {
  try {
    const self = readlinkSync(`${proc}/self`)
    if (self !== String(process.pid))
      return new Fault(
        `${proc} shows this process as ${self}, and its pid is ${process.pid}`,
        'Mount the /proc of the pid namespace of the agent',
      )
    const own = readFileSync(`${proc}/self/cgroup`, 'utf8')
    const first = readFileSync(`${proc}/1/cgroup`, 'utf8')
    // Process 1 of the node is its init, which is in no pod.
    if (isInPod && own === first)
      return new Fault('this agent sees only the processes of its container', 'Set hostPID: true in its pod')
    return own
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return new Fault(`the processes of others cannot be seen: ${reason}`, HIDDEN)
  }
}

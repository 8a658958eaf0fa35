/** Other processes and other users, for tests about who is on a socket. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fstatSync } from 'node:fs'
import type { PeerCredentials } from '@livery/core'

const SO_PEERCRED = `
import socket, struct
s = socket.socket(fileno=3)
print(*struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))
`

/** Why the tests that ask the kernel for a peer's credentials cannot run here, or `false`. */
export const noPython = spawnSync('python3', ['--version']).status === 0 ? false : 'needs python3, to read SO_PEERCRED'

const AS_NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', '/usr/bin/python3']

/** Why the tests with a second user cannot run here, or `false`. */
export const noSecondUser =
  noPython ||
  (process.getuid?.() === 0 && spawnSync(AS_NOBODY[0] ?? '', [...AS_NOBODY.slice(1), '--version']).status === 0
    ? false
    : 'needs root, setpriv and /usr/bin/python3, to connect as another user')

/** Asks the kernel, through a child that inherits the descriptor: Node itself cannot. */
export function readPeerCredentials(descriptor: number): PeerCredentials {
  if (!fstatSync(descriptor).isSocket()) throw Object.assign(new Error('no socket'), { code: 'ENOTSOCK' })
  const { stdout } = spawnSync('python3', ['-c', SO_PEERCRED], { stdio: ['ignore', 'pipe', 'inherit', descriptor] })
  const [pid = -1, uid = -1, gid = -1] = stdout.toString().trim().split(' ').map(Number)
  return { pid, uid, gid }
}

/** Runs a Python script, optionally as nobody, and resolves with its output. */
export function runPython(
  script: string,
  args: readonly string[],
  options: { readonly asNobody?: boolean; readonly onOutput?: (text: string) => void } = {},
): Promise<string> {
  const [command = '', ...rest] = [...(options.asNobody ? AS_NOBODY : ['python3']), '-c', script, ...args]
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
    options.onOutput?.(output)
  })
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', () => resolve(output.trim()))
  })
}

/** Starts a Python script that keeps running; resolves after its first output. */
export async function startPython(
  script: string,
  args: readonly string[],
  options: { readonly asNobody?: boolean } = {},
): Promise<{ readonly stop: () => void }> {
  const [command = '', ...rest] = [...(options.asNobody ? AS_NOBODY : ['python3']), '-c', script, ...args]
  const child = spawn(command, rest, { stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit').then(([code]) => Promise.reject(new Error(`the script ended with ${code}`)))
  exited.catch(() => {}) // also when it is stopped
  await Promise.race([once(child.stdout, 'data'), exited])
  return { stop: () => child.kill('SIGKILL') }
}

/** Whether callers can reach each configured socket, and nobody else can replace it. */
import { lstat } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname } from 'node:path'
import { checkFolder, shareFolders, systemErrorCode, UntrustedPathError } from '@livery/core/plugin'
import { closedFolder, type SocketConfig } from '@livery/sds-server'
import { DEFAULT_MODE } from '@livery/sds-server/defaults'
import type { Config } from '../config/load.ts'
import { sdsSockets } from '../sds/sds-sockets.ts'
import { type Finding, ok, skipped, warning, wrong } from './finding.ts'

/** A range can have ten thousand similar ones. */
const MAX_SOCKETS = 100

export async function socketFindings(config: Config, isRunning: boolean): Promise<Finding[]> {
  shareFolders(config.sharedFolders)
  // The second argument, a caller's share of identities, is irrelevant here.
  const sockets = sdsSockets(config, 1)
  const findings: Finding[] = []
  for (const socket of sockets.slice(0, MAX_SOCKETS)) findings.push(...(await findingsOf(socket, isRunning)))
  const more = sockets.length - MAX_SOCKETS
  return more > 0 ? [...findings, skipped('socket', 'others', `${more} more sockets were not looked at`)] : findings
}

async function findingsOf(socket: SocketConfig, isRunning: boolean): Promise<Finding[]> {
  const { path } = socket
  const stats = await lstat(path).catch(systemErrorCode)
  if (typeof stats !== 'object') {
    const folder = folderFinding(path)
    if (folder) return [folder]
    if (!isRunning) return [skipped('socket', path, 'it is not there, since no agent runs')]
    return [
      wrong(
        'socket',
        path,
        `it is not there (${stats}), though the agent runs`,
        'Look at: curl …/healthz/ready, and at the log',
      ),
    ]
  }
  if (!stats.isSocket())
    return [
      wrong(
        'socket',
        path,
        'it is not a socket, and the agent removes nothing else',
        'Move it away, or name another path',
      ),
    ]
  const findings = [
    folderFinding(path),
    placeFinding(socket, stats),
    await reachFinding(socket),
    await answerFinding(path, isRunning),
  ]
  const found = findings.filter(each => each !== undefined)
  return found.length > 0
    ? found
    : [ok('socket', path, `mode ${octal(stats.mode)}, owner ${stats.uid}:${stats.gid}, it answers`)]
}

/** A folder that root or this user gave away probably belongs to the agent's user: this command may run as another one. */
function folderFinding(path: string): Finding | undefined {
  const folder = dirname(path)
  try {
    checkFolder(folder, { owners: 'delegated' })
    return undefined
  } catch (error) {
    if (!(error instanceof UntrustedPathError)) {
      // The agent makes the folder.
      if (systemErrorCode(error) === 'ENOENT') return undefined
      return skipped('socket', path, `its folder ${folder} cannot be looked at (${systemErrorCode(error)})`)
    }
    const [text = '', remedy = 'Use another folder'] = splitRemedy(error.message)
    return wrong('socket', path, `others can put another socket in its place: ${text}`, remedy)
  }
}

/** The message ends with the remedy. */
function splitRemedy(message: string): readonly string[] {
  const at = message.search(/ (?:Run: |Use |Name )/)
  return at === -1 ? [message] : [message.slice(0, at), message.slice(at + 1)]
}

function placeFinding(
  { path, mode = DEFAULT_MODE, owner, group, callers, identify }: SocketConfig,
  stats: { readonly mode: number; readonly uid: number; readonly gid: number },
): Finding | undefined {
  if ((stats.mode & 0o777) !== mode)
    return wrong(
      'socket',
      path,
      `its mode is ${octal(stats.mode)}, and the configuration says ${octal(mode)}`,
      `Run: chmod ${octal(mode)} ${path}`,
    )
  if ((owner !== undefined && owner !== stats.uid) || (group !== undefined && group !== stats.gid)) {
    const wanted = `${owner ?? stats.uid}:${group ?? stats.gid}`
    return wrong(
      'socket',
      path,
      `its owner is ${stats.uid}:${stats.gid}, and the configuration says ${wanted}`,
      `Run: chown ${wanted} ${path}`,
    )
  }
  if ((mode & 0o006) === 0 || callers || identify) return undefined
  const text = `every user of this machine may open it (mode ${octal(mode)}) and gets what it allows`
  return warning('socket', path, text, 'Set a mode such as "0660", or callers')
}

async function reachFinding({ path, owner, group }: SocketConfig): Promise<Finding | undefined> {
  const closed = await closedFolder(path, { owner, group }).catch(() => undefined)
  return closed && wrong('socket', path, closed.reason, closed.remedy)
}

async function answerFinding(path: string, isRunning: boolean): Promise<Finding | undefined> {
  const code = await connectionError(path)
  if (code === undefined) return undefined
  if (code === 'EACCES')
    return skipped(
      'socket',
      path,
      `uid ${process.getuid?.()} is not allowed to connect: run this command as a caller of it, or as root`,
    )
  if (code !== 'ECONNREFUSED')
    return wrong('socket', path, `a connection fails with ${code}`, 'Look at the log of livery run')
  if (!isRunning) return skipped('socket', path, 'a process that has ended left it, since no agent runs')
  return wrong(
    'socket',
    path,
    'nobody listens on it, though the agent runs',
    'Look at the log of livery run, and restart it',
  )
}

async function connectionError(path: string): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const socket = connect(path)
  socket.on('connect', () => resolve(undefined))
  socket.on('error', error => resolve(systemErrorCode(error) ?? 'an unknown error'))
  return await promise.finally(() => socket.destroy())
}

function octal(mode: number): string {
  return (mode & 0o7777).toString(8).padStart(4, '0')
}

/** A node in trouble: a CA and an agent as processes, with the faults that the alerts and their pages are about. */
import { once } from 'node:events'
import { copyFile, mkdir, rename, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readPeerCredentials } from '@livery/native-keygen'
import { freePort, listening, TemporaryFolder } from '@livery/test-support'
import { SdsClient } from '../../sds-server/test/sds-client.ts'
import type { ListedIdentity } from '../src/commands/listed-certificates.ts'
import { Command, shellEnvironment } from './command.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { revoke } from './revocation-list.ts'

const BIN = fileURLToPath(new URL('../../../node_modules/.bin', import.meta.url))
const id = (name: string): string => `spiffe://cluster.local/ns/default/sa/${name}`
const NODE = 'spiffe://cluster.local/node/a'
/** By file. The CA does not know the one of db. */
const TOKENS = {
  'node.token': 'some-secret-of-the-node',
  'db.token': 'unknown',
  'admin.token': 'some-secret-of-a-person',
}
/** Nobody has this uid. */
const STRANGER = 65_533

/** Why it does not work here, or `false`: one of its sockets has callers. */
export const noTroubledNode = readPeerCredentials ? false : 'no addon to identify callers with'

/**
 * The CA refuses `db`. The clients of `web` have rejected its certificate and a new root. Another process listens on the socket of
 * `api`, and no caller is let in on `run/closed.sock`.
 */
export class TroubledNode implements AsyncDisposable {
  readonly folder: string
  readonly agent: LiveryProcess
  readonly #ca: LiveryProcess
  readonly #parts: AsyncDisposableStack

  private constructor(
    folder: string,
    processes: { readonly agent: LiveryProcess; readonly ca: LiveryProcess },
    parts: AsyncDisposableStack,
  ) {
    this.folder = folder
    this.agent = processes.agent
    this.#ca = processes.ca
    this.#parts = parts
  }

  static async start(): Promise<TroubledNode> {
    await using parts = new AsyncDisposableStack()
    const { path: cwd } = parts.use(new TemporaryFolder())
    const address = `127.0.0.1:${await freePort()}`
    await writeFiles(cwd, configuration(address))
    const ca = parts.use(
      new LiveryProcess(['ca', '--tokens', 'tokens.yaml', '--dir', 'ca', '--listen', address], { cwd }),
    )
    await ca.line(/CA of cluster\.local on/)
    await copyFile(join(cwd, 'ca/root.pem'), join(cwd, 'roots.pem'))
    await revoke(cwd, [])
    await mkdir(join(cwd, 'run'), { mode: 0o750 })
    const occupant = await listening(createServer(), join(cwd, 'run/api.sock'))
    parts.defer(() => void occupant.close())
    const agent = parts.use(new LiveryProcess(['run'], { cwd }))
    await agent.line(/"event":"socket-waiting"/)
    await agent.line(/"event":"ca-error".*"code":"unauthenticated"/)
    await rejectSecrets(cwd, agent, parts)
    await knockInVain(join(cwd, 'run/closed.sock'))
    await agent.line(/"event":"connection-refused"/)
    return new TroubledNode(cwd, { agent, ca }, parts.move())
  }

  metrics(): Promise<string> {
    return this.run('curl -s --unix-socket run/admin.sock http://localhost/metrics')
  }

  /** Resolves when the agent has noticed. */
  async stopCA(): Promise<void> {
    this.#ca.kill('SIGKILL')
    await this.#ca.ended
    for (const name of ['web', 'api', 'db']) await this.run(`livery renew ${id(name)}`)
    await this.agent.line(/"event":"ca-down"/)
  }

  /** Resolves when the agent knows that the certificate of `web` is revoked. Its CA does not answer. */
  async revokeWeb(): Promise<void> {
    const certificates: readonly ListedIdentity[] = JSON.parse(await this.run('livery certs --json'))
    const web = certificates.find(({ identity }) => identity === id('web'))
    await revoke(this.folder, [web?.certChain[0]?.serialNumber ?? ''])
    await this.agent.line(/"event":"revoked"/)
  }

  /** Resolves when the agent could not write to its store. */
  async breakStore(): Promise<void> {
    await rename(join(this.folder, 'store'), join(this.folder, 'old-store'))
    await writeFile(join(this.folder, 'store'), '')
    await this.run(`livery renew ${id('web')}`)
    await this.agent.line(/"event":"not-stored"/)
  }

  /**
   * Runs commands as an operator of the node does, with the agent's log in `livery.log`, and resolves with their output. A command
   * may fail as commands do (exit code 1). Rejects if one cannot be run or is wrong.
   */
  async run(commands: string): Promise<string> {
    await writeFile(join(this.folder, 'livery.log'), this.agent.stderr)
    const strict = `set -E -o pipefail; trap 'code=$?; [ $code -le 1 ] || exit $code' ERR`
    const env = shellEnvironment(`${BIN}:${process.env['PATH']}`)
    await using shell = new Command('bash', ['-c', `${strict}\n${commands}`], { cwd: this.folder, env })
    const { code } = await shell.ended
    if (code !== 0 && code !== 1) throw new Error(`exit ${code}:\n${commands}\n${shell.output}`)
    return shell.output
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#parts.disposeAsync()
  }
}

function configuration(ca: string): object {
  return {
    ttl: '1h',
    rotation: { settle: '1s', ackWait: '1m' },
    retry: { min: '50ms', max: '1s' },
    ca: { plugin: 'citadel', address: ca, rootCert: 'ca/root.pem', tokenFile: 'node.token', impersonate: true },
    trust: { anchors: ['roots.pem'], crl: 'crl.pem' },
    identities: [
      { id: id('web'), socket: 'run/web.sock' },
      { id: id('api'), socket: 'run/api.sock' },
      { id: id('db'), tokenFile: 'db.token' },
    ],
    sockets: [{ path: 'run/closed.sock', callers: [{ uid: STRANGER, allow: [id('*')] }] }],
    store: { directory: 'store' },
    // For where the addon is not built.
    admin: { tokenFile: 'admin.token' },
    drain: '100ms',
  }
}

async function writeFiles(folder: string, config: object): Promise<void> {
  const grants = [{ token: TOKENS['node.token'], identity: NODE, impersonates: [id('web'), id('api')] }]
  await writeFile(join(folder, 'tokens.yaml'), JSON.stringify(grants))
  await writeFile(join(folder, 'livery.yaml'), JSON.stringify(config))
  for (const [file, token] of Object.entries(TOKENS)) await writeFile(join(folder, file), token, { mode: 0o600 })
}

/** A client of `web` takes no certificate; another one takes the roots, and not those with a new root. */
async function rejectSecrets(cwd: string, agent: LiveryProcess, parts: AsyncDisposableStack): Promise<void> {
  const client = parts.use(new SdsClient(join(cwd, 'run/web.sock')))
  const own = client.sotw()
  own.ask('default')
  own.nack(await own.next(), 'the key cannot be loaded', 'default')
  const roots = client.sotw()
  roots.ask('ROOTCA')
  roots.ack(await roots.next(), 'ROOTCA')
  await client.settled()
  await livery(['ca', 'root', 'add', '--dir', 'ca'], { cwd })
  await copyFile(join(cwd, 'ca/root.pem'), join(cwd, 'roots.pem'))
  roots.nack(await roots.next(), 'the new root cannot be loaded', 'ROOTCA')
  await agent.lines(/"event":"nacked"/, 2)
}

/** Resolves when the agent has closed the connection. */
async function knockInVain(path: string): Promise<void> {
  const socket = connect(path)
  socket.on('error', () => {})
  socket.resume()
  await once(socket, 'close')
}

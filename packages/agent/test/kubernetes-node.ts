/** A node of Kubernetes for the program: a mount namespace where the service account of its pod is mounted, and a stand-in of the API server. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { waitForSocket } from '@livery/sds-server'
import { TemporaryFolder } from '@livery/test-support'
import { withAccount } from './launchers.ts'
import { LiveryProcess } from './livery-process.ts'
import { NODE, PodApiServer } from './pod-api-server.ts'
import { fetchSecrets } from './sds-client.ts'

/** Less than the runner gives a test, so that the reason is reported. */
const WAIT_MS = 100_000

interface KubernetesNode {
  readonly server: PodApiServer
  /** The folder of the configuration, which every user may read. */
  readonly cwd: string
  /** Serves every identity by its name: its callers are in no pods. */
  readonly socket: string
  /** Writes the configuration: the defaults of the tests with `changes`, key by key. */
  configure(changes: object): Promise<void>
  /** Starts the agent. */
  start(...flags: readonly string[]): LiveryProcess
  /** Starts a command of the program in a pod of the same service account. */
  launch(...args: readonly string[]): LiveryProcess
}

export async function startOnNode(
  t: TestContext,
  options: {
    readonly prepare?: (server: PodApiServer) => void
    readonly config?: object
    /** Of another API server. Default: the stand-in. */
    readonly environment?: NodeJS.ProcessEnv
  } = {},
): Promise<KubernetesNode> {
  const parts = new AsyncDisposableStack()
  t.after(() => parts.disposeAsync())
  const { path: cwd } = parts.use(new TemporaryFolder())
  await chmod(cwd, 0o755)
  const server = parts.use(await PodApiServer.start())
  await server.mountAccount(cwd)
  options.prepare?.(server)
  const file = join(cwd, 'livery.yaml')
  const basis = {
    ca: { plugin: 'embedded' },
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
    removal: { grace: '0s' },
    kubernetes: {},
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'] }],
  }
  const configure = (changes: object) => writeFile(file, JSON.stringify({ ...basis, ...changes }))
  await configure(options.config ?? {})
  const launch = (...args: readonly string[]) =>
    parts.use(
      new LiveryProcess(args, {
        cwd,
        env: { ...(options.environment ?? server.environment), NODE_NAME: NODE },
        launcher: withAccount(cwd),
      }),
    )
  return {
    server,
    cwd,
    socket: join(cwd, 'sds.sock'),
    configure,
    start: (...flags) => launch('run', '--config', file, ...flags),
    launch,
  }
}

export function identityOf(account: string): string {
  return `spiffe://cluster.local/ns/default/sa/${account}`
}

/** Resolves when the identity of a service account has a certificate on a socket. */
export async function served(socket: string, account: string): Promise<void> {
  const name = identityOf(account)
  await waitForSocket(socket, WAIT_MS, name)
  const [secret] = await fetchSecrets(socket, [name])
  assert.equal(new X509Certificate(secret?.certificateChain ?? '').subjectAltName, `URI:${name}`)
}

/** A node of Kubernetes for the program: a mount namespace where the service account of its pod is mounted, and a stand-in of the API server. */
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { waitForSocket } from '@livery/sds-server'
import { asUser, withAccount, withFolder } from './launchers.ts'
import { LiveryProcess, makeDirectory } from './livery-process.ts'
import { NODE, PodApiServer } from './pod-api-server.ts'
import { fetchSecrets } from './sds-client.ts'

const FETCH = fileURLToPath(new URL('fetch-secrets.ts', import.meta.url))

/** Less than the runner gives a test, so that the reason is reported. */
const WAIT_MS = 100_000

/** Envoy's user in Istio's sidecar. */
const PROXY = 1_337

export interface KubernetesNode {
  readonly server: PodApiServer
  /** The folder of the configuration, which every user may read. */
  readonly cwd: string
  /** The folder of the folders of pods. */
  readonly root: string
  /** Writes the configuration: the defaults of the tests with `changes`, key by key. */
  configure(changes: object): Promise<void>
  /** Starts the agent. */
  start(...flags: readonly string[]): LiveryProcess
  /** Starts a command of the program in a pod of the same service account. */
  launch(...args: readonly string[]): LiveryProcess
  socketOf(uid: string): string
}

export async function startOnNode(
  t: TestContext,
  options: {
    readonly prepare?: (server: PodApiServer) => void
    readonly config?: object
    /** The user of the program, by a launcher. Default: that of the test. */
    readonly user?: readonly string[]
  } = {},
): Promise<KubernetesNode> {
  const parts = new AsyncDisposableStack()
  t.after(() => parts.disposeAsync())
  const { path: cwd } = parts.use(await makeDirectory())
  await chmod(cwd, 0o755)
  const server = parts.use(await PodApiServer.start())
  await server.mountAccount(cwd)
  options.prepare?.(server)
  const root = join(cwd, 'pods')
  const file = join(cwd, 'livery.yaml')
  const basis = {
    ca: { plugin: 'embedded' },
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
    removal: { grace: '0s' },
    kubernetes: { sockets: { root } },
  }
  const configure = (changes: object) => writeFile(file, JSON.stringify({ ...basis, ...changes }))
  await configure(options.config ?? {})
  const launch = (...args: readonly string[]) =>
    parts.use(
      new LiveryProcess(args, {
        cwd,
        env: { ...server.environment, NODE_NAME: NODE },
        launcher: [...withAccount(cwd), ...(options.user ?? [])],
      }),
    )
  return {
    server,
    cwd,
    root,
    configure,
    start: (...flags) => launch('run', '--config', file, ...flags),
    launch,
    socketOf: uid => join(root, uid, 'socket'),
  }
}

/** The URI in the certificate that is `default` on a socket. */
export async function identityAt(socket: string): Promise<string> {
  const [secret] = await fetchSecrets(socket, ['default'])
  return new X509Certificate(secret?.certificateChain ?? '').subjectAltName ?? ''
}

/** The same, as soon as the socket is there and has a certificate. */
export async function identityWhenServed(socket: string): Promise<string> {
  await waitForSocket({ path: socket, name: 'default', timeoutMs: WAIT_MS })
  return await identityAt(socket)
}

/**
 * Asks for `names` as a pod does: as Envoy's user in Istio's sidecar, where `folder` alone is mounted, at `mounted`. Resolves with what
 * `fetch-secrets.ts` prints. The folder is seen as the process `viewer` sees it. Default: this one.
 */
export async function fetchInPod(
  { folder, mounted, viewer }: { readonly folder: string; readonly mounted: string; readonly viewer?: number },
  ...names: readonly string[]
): Promise<string> {
  const view = viewer === undefined ? [] : ['nsenter', '--mount', `--target=${viewer}`]
  const asPod = [...withFolder(folder, mounted), ...asUser(PROXY)]
  return await run([...view, ...asPod, ...fetchCommand(join(mounted, 'socket'), ...names)])
}

/** Asks for `names` on a socket of the node as the same user. Resolves as {@link fetchInPod} does. */
export async function fetchAsProxy(socket: string, ...names: readonly string[]): Promise<string> {
  return await run([...asUser(PROXY), ...fetchCommand(socket, ...names)])
}

function fetchCommand(socket: string, ...names: readonly string[]): readonly string[] {
  return [process.execPath, '--conditions=@livery/source', FETCH, socket, ...names]
}

async function run([command = '', ...words]: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, words, { cwd: '/' })
  return stdout.trim()
}

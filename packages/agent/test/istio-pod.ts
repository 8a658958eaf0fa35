/** The inside of a pod that Istio injected: its user, its folders, its environment, and `livery ca` as the mesh's CA. */
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { asUser } from './launchers.ts'
import { LiveryProcess, livery } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** The user of istio-proxy. */
export const PROXY = 1_337
/** Where pilot-agent looks for the SDS socket, from its working directory. */
export const FOLDER = 'var/run/secrets/workload-spiffe-uds'
/** Where it looks for the socket of a gateway's credentials, and binds one of its own for secrets in files. */
export const CREDENTIALS = 'var/run/secrets/credential-uds'
/** For `test(name, { skip }, …)`. */
export const notRoot = process.geteuid?.() === 0 ? false : 'only root can start processes of other users'

export interface IstioPod {
  /** The root of istio-proxy's file system. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** The root of istio-proxy's file system. The emptyDirs of the template belong to root and have mode 0777. */
export async function makeFolders(t: TestContext): Promise<string> {
  const cwd = temporaryFolder(t)
  for (const folder of [FOLDER, CREDENTIALS]) {
    await mkdir(join(cwd, folder), { recursive: true, mode: 0o755 })
    await chmod(join(cwd, folder), 0o777)
  }
  await chmod(cwd, 0o755)
  return cwd
}

/** Its CA runs until the test ends. */
export async function makePod(t: TestContext): Promise<IstioPod> {
  const cwd = await makeFolders(t)
  await writeFile(join(cwd, 'tokens.yaml'), `[{ token: sidecar, identity: ${WEB} }]\n`)
  await writeFile(join(cwd, 'token'), 'sidecar', { mode: 0o644 })
  const args = ['ca', '--listen', '127.0.0.1:0', '--tokens', 'tokens.yaml', '--dir', '.ca']
  const ca = new LiveryProcess(args, { cwd })
  t.after(() => ca[Symbol.asyncDispose]())
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  await copyFile(join(cwd, '.ca/root.pem'), join(cwd, 'root.pem'))
  await chmod(join(cwd, 'root.pem'), 0o644)
  const env = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'default', CA_ADDR: address }
  return { cwd, env: { ...env, CA_ROOT_CA: 'root.pem', AUTH_TOKEN: 'token' } }
}

/** `livery run` by the profile, serving `default` at `name` in the folder. `config`: lines after the profile. */
export async function startLivery(
  pod: IstioPod,
  name: string,
  { config = '', launcher = [] }: { readonly config?: string; readonly launcher?: readonly string[] } = {},
): Promise<LiveryProcess> {
  await writeFile(join(pod.cwd, 'livery.yaml'), `profile: istio\n${config}`, { mode: 0o644 })
  const agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], {
    cwd: pod.cwd,
    env: { ...pod.env, WORKLOAD_IDENTITY_SOCKET_FILE: name },
    launcher: [...launcher, ...asUser(PROXY)],
  })
  const { code, stderr } = await waitFor(pod, name)
  if (code === 0) return agent
  await agent[Symbol.asyncDispose]()
  throw new Error(stderr + agent.stderr)
}

export function waitFor({ cwd }: IstioPod, name: string): ReturnType<typeof livery> {
  const args = ['wait', '--socket', join(FOLDER, name), '--name', 'default', '--timeout', '30s']
  return livery(args, { cwd, uid: PROXY })
}

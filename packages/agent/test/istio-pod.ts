/** The inside of a pod that Istio injected: its user, its folders, its environment, and `livery ca` as the mesh's CA. */
import { chmod, copyFile, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { LiveryProcess, makeDirectory } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** The user of istio-proxy. */
export const PROXY = 1_337
/** Where pilot-agent looks for the SDS socket, from its working directory. */
export const FOLDER = 'var/run/secrets/workload-spiffe-uds'
/** For `test(name, { skip }, …)`. */
export const notRoot = process.geteuid?.() === 0 ? false : 'only root can start processes of other users'

export interface IstioPod {
  /** The root of istio-proxy's file system. */
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Its CA runs until the test ends. The emptyDir of the template belongs to root and has mode 0777. */
export async function makePod(t: TestContext): Promise<IstioPod> {
  const directory = await makeDirectory()
  t.after(() => directory[Symbol.asyncDispose]())
  const cwd = directory.path
  await mkdir(join(cwd, FOLDER), { recursive: true, mode: 0o755 })
  await chmod(cwd, 0o755)
  await chmod(join(cwd, FOLDER), 0o777)
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

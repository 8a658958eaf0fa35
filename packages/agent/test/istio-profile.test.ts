/** Livery beside an istio-proxy, in the user and with the folder of Istio's template. */
import assert from 'node:assert/strict'
import { chmod, copyFile, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { LiveryProcess, livery, makeDirectory } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** The user of istio-proxy. */
const PROXY = 1_337
const STRANGER = 12_345
const FOLDER = 'var/run/secrets/workload-spiffe-uds'
const skip = process.geteuid?.() === 0 ? false : 'only root can start processes of other users'

/** The root of a pod's container: the emptyDir of the template belongs to root and has mode 0777. */
async function makePod(t: TestContext): Promise<{ readonly cwd: string; readonly env: Record<string, string> }> {
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

for (const profile of [undefined, 'profile: istio\nadmin: { address: "127.0.0.1:0" }\n'])
  test(`as uid 1337 it serves in the template's emptyDir, ${profile ? 'by the profile' : 'by the environment alone'}`, {
    skip,
  }, async t => {
    const { cwd, env } = await makePod(t)
    if (profile) await writeFile(join(cwd, 'livery.yaml'), profile, { mode: 0o644 })
    const socket = join(cwd, FOLDER, 'socket')
    await using agent = new LiveryProcess(['run', '--admin', '127.0.0.1:0'], { cwd, env, uid: PROXY })
    const wait = ['wait', '--socket', socket, '--timeout']
    const proxy = await livery([...wait, '30s', '--name', 'default'], { cwd, uid: PROXY })
    assert.deepEqual([proxy.code, proxy.stderr], [0, ''], agent.stderr)
    const { uid, mode } = await stat(socket)
    assert.deepEqual([uid, mode & 0o777], [PROXY, 0o660])
    const stranger = await livery([...wait, '300ms'], { cwd, uid: STRANGER })
    assert.equal(stranger.code, 1)
    assert.match(stranger.stderr, /uid 12345 is not allowed to connect \(EACCES\)/)
  })

test('a folder beside it that everybody may write to is refused as before', { skip }, async t => {
  const { cwd, env } = await makePod(t)
  await mkdir(join(cwd, 'open'))
  await chmod(join(cwd, 'open'), 0o777)
  const sockets = 'sockets: [{ path: open/sds.sock, allow: ["spiffe://cluster.local/**"] }]\n'
  await writeFile(join(cwd, 'livery.yaml'), `profile: istio\n${sockets}`, { mode: 0o644 })
  const agent = await livery(['run', '--admin', '127.0.0.1:0'], { cwd, env, uid: PROXY })
  assert.equal(agent.code, 1)
  assert.match(agent.stderr, /open \(mode 0777, owner 0:0\) can be written by others/)
})

/** Livery beside an istio-proxy, in the user and with the folder of Istio's template. */
import assert from 'node:assert/strict'
import { chmod, mkdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FOLDER, makePod, PROXY, notRoot as skip } from './istio-pod.ts'
import { LiveryProcess, livery } from './livery-process.ts'

const STRANGER = 12_345

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

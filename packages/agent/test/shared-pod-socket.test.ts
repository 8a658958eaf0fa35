/** The program in a pod of its own: it learns its pods from an API server, and serves all of them on one socket. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ControlGroups, groupPath, noControlGroups } from './control-groups.ts'
import { inGroup, noMounts, withAccount } from './launchers.ts'
import { LiveryProcess, makeDirectory } from './livery-process.ts'
import { NODE, PodApiServer, podResource } from './pod-api-server.ts'
import { StartedPod } from './pod-process.ts'

const skip = noControlGroups || noMounts

test('pods that an API server lists share one socket: each has its identity, and loses it with its end', {
  skip,
}, async () => {
  await using directory = await makeDirectory()
  await using groups = new ControlGroups()
  await using api = await PodApiServer.start()
  await api.mountAccount(directory.path)
  const groupOf = (uid: string) => groups.make(groupPath(uid))
  const [web, db] = ['web', 'db'].map(name => podResource({ name, serviceAccount: name }))
  assert.ok(web && db)
  api.put(web)
  const config = {
    ca: { plugin: 'embedded' },
    kubernetes: { nodeName: NODE },
    sockets: [{ path: 'sds.sock', identify: 'kubernetes' }],
    admin: { address: '127.0.0.1:0' },
  }
  await writeFile(join(directory.path, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], {
    cwd: directory.path,
    env: api.environment,
    launcher: [...inGroup(groupOf(randomUUID())), ...withAccount(directory.path)],
  })
  assert.match(await agent.line(/socket .*sds\.sock/), /to each pod its identity \(callers: pods\)/)
  const socket = join(directory.path, 'sds.sock')
  await using webProcess = await StartedPod.start(groupOf(web.metadata.uid))
  await using dbProcess = await StartedPod.start(groupOf(db.metadata.uid))
  const identityOf = (name: string) => ({ identities: { default: `spiffe://cluster.local/ns/default/sa/${name}` } })
  assert.deepEqual(await webProcess.ask(socket, 'default'), identityOf('web'))
  // It runs before the API server has reported it.
  const answer = dbProcess.ask(socket, 'default')
  api.put(db)
  assert.deepEqual(await answer, identityOf('db'))
  api.delete(web)
  await agent.line(/"event":"pod-removed"/)
  assert.ok('failure' in (await webProcess.ask(socket, 'default')))
  await agent.line(new RegExp(`"event":"connection-refused".*"subject":"pod ${web.metadata.uid}".*"unknown-caller"`))
})

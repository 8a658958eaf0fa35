/** Another process listens on a socket of the configuration: the agent serves the others and says so. */
import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'
import { fetchSecrets, openStream } from './sds-client.ts'

const [WEB, API, DB] = ['web', 'api', 'db'].map(name => `spiffe://cluster.local/ns/default/sa/${name}`)

test('a process on one of the sockets keeps neither the start nor a reload from serving the others', async t => {
  const cwd = temporaryFolder(t)
  const file = (name: string): string => join(cwd, name)
  const write = (...names: readonly (readonly [string | undefined, string])[]): Promise<void> => {
    const identities = names.map(([id, socket]) => ({ id, socket }))
    const config = { ca: { plugin: 'embedded' }, identities, admin: { address: '127.0.0.1:0' }, drain: '100ms' }
    return writeFile(file('livery.yaml'), JSON.stringify(config))
  }
  await mkdir(file('run'), { mode: 0o750 })
  const other = await listening(createServer(), file('run/api.sock'))
  await write([WEB, 'run/web.sock'], [API, 'run/api.sock'])

  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  assert.equal((await fetchSecrets(file('run/web.sock'), ['default'])).length, 1)
  const line = await agent.line(/"event":"socket-waiting"/)
  assert.match(line, /"level":"error".*another program.*serves this socket\. Stop it, or choose another path/)
  const unready = await fetch(`http://${admin}/healthz/ready`)
  assert.equal(unready.status, 503)
  assert.match(
    await unready.text(),
    /The socket .*run\/api\.sock is not served \(waiting\): Cannot listen on .*\. Stop it, or choose another/,
  )

  await write([WEB, 'run/web.sock'], [API, 'run/api.sock'], [DB, 'run/db.sock'])
  await agent.line(/"msg":"reloaded: 1 identity added, 1 socket opened"/)
  assert.equal((await fetchSecrets(file('run/db.sock'), ['default'])).length, 1)

  other.close()
  await agent.line(/"event":"socket-acquired","path":".*run\/api\.sock"/)
  assert.equal((await fetchSecrets(file('run/api.sock'), ['default'])).length, 1)
  assert.equal((await fetch(`http://${admin}/healthz/ready?strict`)).status, 200)
})

test('with takeover an agent takes the sockets of the one that runs, whose streams continue', async t => {
  const cwd = temporaryFolder(t)
  const socket = join(cwd, 'web.sock')
  const config = { ca: { plugin: 'embedded', directory: 'ca' }, admin: { address: '127.0.0.1:0' }, drain: '100ms' }
  const identities = [{ id: WEB, socket: 'web.sock' }]
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify({ ...config, identities }))
  await using first = new LiveryProcess(['run'], { cwd })
  await first.admin()
  using stream = await openStream(socket, ['default'])
  await writeFile(join(cwd, 'next.yaml'), JSON.stringify({ ...config, identities, sds: { takeover: true } }))
  await using second = new LiveryProcess(['run', '--config', 'next.yaml'], { cwd })
  await second.admin()
  const [fresh] = await fetchSecrets(socket, ['default'])
  await first.line(/"event":"socket-superseded"/)
  assert.notEqual(fresh?.certificateChain, stream.secrets[0]?.certificateChain)
  first.kill('SIGTERM')
  assert.equal(await stream.ended, 14)
  assert.equal((await first.ended).code, 0)
  assert.equal((await fetchSecrets(socket, ['default'])).length, 1)
})

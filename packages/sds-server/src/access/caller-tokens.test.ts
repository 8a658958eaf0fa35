/** Tokens on a socket that pods share: each caller gets its pod's token, if a rule names the audience. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { FileSecretsOptions } from '@livery/core/file-secrets'
import { startFileServer, textOf } from '../../test/file-server.ts'
import { MemoryDirectory } from '../../test/memory-directory.ts'
import { API, WEB } from '../../test/running-server.ts'
import { namesOf, secretsOf } from '../../test/sds-client.ts'
import type { SocketConfig } from '../sds-socket.ts'

const TOKEN = 'token://api.example'

async function start(t: TestContext, socket: Partial<SocketConfig> = {}) {
  const directory = new MemoryDirectory()
  directory.set(1, WEB, 'sa:web')
  directory.set(2, API, 'sa:api')
  const looks: (() => void)[] = []
  let round = 1
  /** How many tokens may be followed at once. */
  const most = { followed: 100 }
  const followed = new Set<string>()
  const tokens: FileSecretsOptions['tokens'] = {
    refusal: ({ pod }) => (pod === 'uid-3' ? 'is of a static pod' : undefined),
    noRoom: () => (followed.size < most.followed ? undefined : 'is one token too many'),
    follow(name, look) {
      followed.add(name.audience)
      looks.push(look)
      const read = async () => ({ token: `eyJ.${name.audience}.${name.pod}.${round}`, lifeMs: 60_000 })
      return { read, [Symbol.dispose]: () => void followed.delete(name.audience) }
    },
  }
  const { readPeerCredentials } = directory
  const access = { allow: [TOKEN], identify: true, ...socket }
  const { server, files } = await startFileServer(t, { tokens }, access, {
    callerDirectory: directory,
    readPeerCredentials,
    fileNames: { 'sds://api': TOKEN },
  })
  const client = (pid: number) => {
    directory.pid = pid
    return server.connect()
  }
  const reasonFor = (name: string) => JSON.stringify(server.reports.get(name)?.find(({ kind }) => kind === 'refused'))
  const renew = () => {
    round++
    for (const look of looks) look()
  }
  return { server, directory, files, client, reasonFor, renew, most }
}

function tokenIn(response: Parameters<typeof secretsOf>[0], name = TOKEN): string | undefined {
  const type = secretsOf(response).get(name)?.type
  return type?.$case === 'genericSecret' ? textOf(type.value.secret) : undefined
}

test('two pods that ask by one name get each its own token, by another name for it too, and the next one is pushed', async t => {
  const { client, renew, files } = await start(t)
  const streams = []
  for (const pid of [1, 2]) {
    const stream = client(pid).sotw()
    stream.ask(TOKEN, 'sds://api')
    let response = await stream.next()
    while (namesOf(response).length < 2) response = await stream.next()
    const own = `eyJ.api.example.uid-${pid}.1`
    assert.deepEqual([tokenIn(response), tokenIn(response, 'sds://api')], [own, own])
    stream.ack(response, TOKEN, 'sds://api')
    streams.push(stream)
  }
  renew()
  for (const [index, stream] of streams.entries())
    assert.equal(tokenIn(await stream.next()), `eyJ.api.example.uid-${index + 1}.2`)
  const names = files.entries().map(({ name }) => name)
  assert.deepEqual(names, ['token://api.example~uid-1', 'token://api.example~uid-2'])
})

test('a token for which a pod has no room is refused by name, and given once another is let go of', async t => {
  const other = 'token://other.example'
  const { client, reasonFor, most, server } = await start(t, { allow: [TOKEN, other] })
  most.followed = 1
  const [first, second] = [client(1).sotw(), client(1).sotw()]
  first.ask(TOKEN)
  while (tokenIn(await first.next()) === undefined);
  second.ask(other)
  while (!/it is one token too many/.test(reasonFor(other))) await new Promise(setImmediate)
  first.end()
  let token: string | undefined
  const reading = (async () => {
    while (token === undefined) token = tokenIn(await second.next(), other)
  })()
  while (token === undefined) await server.source.clock.advance(100)
  await reading
  assert.equal(token, 'eyJ.other.example.uid-1.1')
})

test('a token over Delta has a version that is not the token', async t => {
  const { client } = await start(t)
  const stream = client(1).delta()
  stream.subscribe(TOKEN)
  const { resources } = await stream.next()
  assert.match(resources[0]?.version ?? '', /^[0-9a-f]{64}$/)
})

test("another audience, another pod's token, and what the source refuses are refused with the reason", async t => {
  const { client, directory, reasonFor } = await start(t)
  directory.set(3, undefined)
  for (const [pid, name, reason] of [
    [1, 'token://other.example', /this caller is not allowed this token: see allow and callers/],
    [1, `${TOKEN}~uid-2`, /it has an audience with \* or ~/],
    [1, 'token://', /it has an audience of 0 or over 512 characters/],
    [3, TOKEN, /it is of a static pod/],
  ] as const) {
    assert.deepEqual(namesOf(await client(pid).fetch({ resourceNames: [name] })), [], name)
    assert.match(reasonFor(name), reason)
  }
})

test('a caller that is not known as a pod has no token, whatever the socket allows', async t => {
  const { client, reasonFor } = await start(t, { identify: false })
  assert.deepEqual(namesOf(await client(1).fetch({ resourceNames: [TOKEN] })), [])
  assert.match(
    reasonFor(TOKEN),
    /a token is for the pod that asks, and this caller is not known as a pod: set identify/,
  )
})

test('the token of a pod that is gone is let go of with its stream', async t => {
  const { client, directory, files } = await start(t)
  const stream = client(1).sotw()
  stream.ask(TOKEN)
  while (tokenIn(await stream.next()) === undefined);
  directory.delete(1)
  while (files.entries().length > 0) await new Promise(setImmediate)
})

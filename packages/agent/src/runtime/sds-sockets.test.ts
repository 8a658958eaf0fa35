import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import type { SocketConfig } from '@livery/sds-server'
import { DEFAULT_NAMES, DEFAULT_OPTIONS } from '@livery/sds-server/defaults'
import { temporaryFolder } from '@livery/test-support'
import { loadConfig } from '../config/load.ts'
import { describeSocket, sdsSockets, serverOptions, shareOnDemand } from './sds-sockets.ts'

test('a caller gets half of the room that the listed identities leave, unless the configuration says how much', async t => {
  const directory = temporaryFolder(t)
  const file = join(directory, 'livery.yaml')
  const config = {
    ca: { plugin: 'embedded' },
    identities: [{ range: 'spiffe://cluster.local/sa-{0..300}' }],
    maxIdentities: 600,
    sockets: [{ path: 'a.sock' }, { path: 'b.sock', limits: { perCaller: { identities: 7 } } }],
  }
  await writeFile(file, JSON.stringify(config))
  const { config: loaded } = await loadConfig({
    file,
    environment: {},
    workingDirectory: directory,
    terminal: false,
  })
  assert.deepEqual(
    sdsSockets(loaded, shareOnDemand(loaded)).map(({ limits }) => limits?.perCaller?.identities),
    [150, 7],
  )
})

test('the line of a socket names what its callers are allowed, and that only bundles are served where that is so', () => {
  const [web, api] = ['spiffe://cluster.local/web', 'spiffe://cluster.local/api'] as const
  const cases: readonly [Omit<SocketConfig, 'path'>, string][] = [
    [{ allow: [] }, 'only trust bundles, because allow is empty'],
    [{ allow: [], callers: [{ uid: 7 }] }, 'only trust bundles, because allow is empty (callers: uid 7)'],
    [
      {
        allow: [],
        callers: [
          { uid: 7, allow: [web] },
          { gid: 8, uid: 9, allow: [web, api] },
        ],
      },
      `by name ${web}, ${api} (callers: uid 7, uid 9 with gid 8)`,
    ],
    [{ allow: [web], callers: [{ uid: 7, allow: [api] }] }, `by name ${web} (callers: uid 7)`],
    [{ identity: web, callers: [{ gid: 8 }] }, `${web} (callers: gid 8)`],
    [{ identify: true }, 'to each pod its identity (callers: pods)'],
    [
      { identify: true, allow: [web], callers: [{ uid: 7, selectors: ['ns:a', 'sa:b'] }, { selectors: ['ns:c'] }] },
      `to each pod its identity, and by name ${web} (callers: uid 7 with ns:a with sa:b, ns:c)`,
    ],
    [{ identity: web, identify: true }, `${web} (callers: pods)`],
  ]
  for (const [socket, text] of cases) assert.equal(describeSocket({ path: '/s', ...socket }), `socket /s: ${text}`)
})

test('each key of sds reaches the server, as the configuration or as the default of the server has it', async t => {
  const directory = temporaryFolder(t)
  const file = join(directory, 'livery.yaml')
  const optionsOf = async (more: object) => {
    const identities = [{ id: 'spiffe://cluster.local/web', socket: 'web.sock' }]
    await writeFile(file, JSON.stringify({ ca: { plugin: 'embedded' }, identities, ...more }))
    const sources = { file, environment: {}, workingDirectory: directory, terminal: false }
    return serverOptions((await loadConfig(sources)).config)
  }
  const { drainMs, takeover, refusedNames } = DEFAULT_OPTIONS
  const expected = { names: DEFAULT_NAMES, fileNames: {}, drainMs, takeover, refusedNames }
  assert.deepEqual(await optionsOf({}), expected)
  const sds = {
    takeover: true,
    refusedNames: 'invalidate',
  }
  const files = { names: { 'sds://gateway': 'file-root:/etc/gateway/ca.crt' } }
  assert.deepEqual(await optionsOf({ sds, files, drain: '1s' }), {
    names: DEFAULT_NAMES,
    fileNames: files.names,
    drainMs: 1_000,
    takeover: true,
    refusedNames: 'invalidate',
  })
})

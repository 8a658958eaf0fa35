import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { SpiffeId } from '@livery/core/plugin'
import { type AccessConfig, SdsServerError, type SocketConfig } from '@livery/sds-server'
import { temporaryFolder } from '@livery/test-support'
import { type Config, loadConfig } from '../config/load.ts'
import { describeChanges } from '../runtime/config-reloader.ts'
import { configuredIdentities, IdentityUnion } from '../secrets/identity-union.ts'
import { type LiveChanges, LiveConfig, type LiveConfigOptions } from './live-config.ts'
import { sdsSockets, shareOnDemand } from './sds-sockets.ts'

const directory = temporaryFolder({ after })
const signal = new AbortController().signal

const WEB = 'spiffe://cluster.local/web'
const API = 'spiffe://cluster.local/api'
const DB = 'spiffe://cluster.local/db'

async function configWith(settings: object): Promise<Config> {
  const file = join(directory, 'livery.yaml')
  writeFileSync(file, JSON.stringify({ ca: { plugin: 'embedded' }, sockets: [{ path: '/sds' }], ...settings }))
  const { config } = await loadConfig({ file, environment: {}, workingDirectory: directory, terminal: false })
  return config
}

/** Keeps what is held and listened on; paths in `refused` cannot be used. */
class Bench {
  readonly held = new Map<SpiffeId, string | undefined>()
  readonly listening = new Set<string>()
  readonly refused = new Set<string>()
  /** Paths on which another process listens. */
  readonly taken = new Set<string>()
  readonly failed: string[] = []
  /** Rules that were put in force. */
  readonly access: AccessConfig[] = []
  /** The actions, in order. */
  readonly log: string[] = []
  /** Called while new sockets are being opened. */
  onListen: () => void = () => {}
  readonly live: LiveConfig
  readonly union: IdentityUnion

  constructor(config: Config) {
    this.union = new IdentityUnion({
      add: (identity, options = {}) => {
        this.log.push(`hold ${identity}`)
        this.held.set(identity, options.tokenFile)
      },
      remove: identity => {
        this.log.push(`remove ${identity}`)
        this.held.delete(identity)
      },
    })
    this.union.replace('configuration', configuredIdentities(config))
    for (const { path } of sdsSockets(config, shareOnDemand(config))) this.listening.add(path)
    this.live = new LiveConfig(config, {
      union: this.union,
      reloads: { emit: () => {} },
      sds: this.#sds(),
      useRoots: async () => {},
      onServe: sockets => this.log.push(`serve ${sockets.map(({ path }) => path)}`),
      onError: (_, path) => this.failed.push(path),
    })
    this.log.length = 0
  }

  #sds(): LiveConfigOptions['sds'] {
    return {
      listen: socket => this.#listen([socket]),
      listenAll: sockets => this.#listen(sockets),
      prepareAccess: configs => {
        this.#check(configs)
        return () => {
          this.log.push(...configs.map(({ path }) => `change ${path}`))
          this.access.push(...configs)
          queueMicrotask(() => this.log.push('the turn is over'))
        }
      },
      review: () => void this.log.push('review'),
      stopListening: async path => {
        this.log.push(`stop ${path}`)
        this.listening.delete(path)
      },
    }
  }

  async #listen(sockets: readonly SocketConfig[]): Promise<readonly Error[]> {
    this.onListen()
    await Promise.resolve()
    this.#check(sockets)
    for (const { path } of sockets) {
      this.log.push(`listen ${path}`)
      this.listening.add(path)
    }
    return sockets
      .filter(({ path }) => this.taken.has(path))
      .map(() => new SdsServerError('live-owner', 'another process'))
  }

  #check(sockets: readonly AccessConfig[]): void {
    for (const { path } of sockets) if (this.refused.has(path)) throw new Error(`Cannot use ${path}`)
  }
}

test('a token file that changes reaches the manager, and an identity that does not is not touched', async () => {
  const bench = new Bench(await configWith({ identities: [WEB, { id: API, tokenFile: '/a' }] }))
  bench.held.set(WEB, 'untouched')
  const changes = await bench.live.apply(await configWith({ identities: [WEB, { id: API, tokenFile: '/b' }] }), signal)
  assert.deepEqual(
    [...bench.held.entries()],
    [
      [WEB, 'untouched'],
      [API, '/b'],
    ],
  )
  assert.deepEqual([changes.identitiesAdded, changes.identitiesRemoved], [0, 0])
})

test('new sockets are opened first; then new rules are in force and old sockets stopped before new identities are held', async () => {
  const shared = { path: '/sds', allow: ['spiffe://cluster.local/**'] }
  const before = { identities: [{ id: WEB, socket: '/web' }], sockets: [shared, { ...shared, path: '/old' }] }
  const bench = new Bench(await configWith(before))
  const identities = [{ id: WEB, socket: '/own' }, { id: API, socket: '/web' }, DB]
  await bench.live.apply(await configWith({ identities, sockets: [{ path: '/sds', allow: [WEB] }] }), signal)
  assert.deepEqual(bench.log, [
    'listen /own',
    'change /sds',
    'stop /old',
    'stop /web',
    `hold ${API}`,
    `hold ${DB}`,
    'review',
    'the turn is over',
    'listen /web',
    'serve /own,/sds,/web',
  ])
})

test('an identity that comes back has its socket, also if it is forgotten while others are opened', async () => {
  const web = { id: WEB, socket: '/web' }
  const bench = new Bench(await configWith({ identities: [web, API] }))
  await bench.live.apply(await configWith({ identities: [API] }), signal)
  bench.onListen = () => bench.live.onForgotten(WEB)
  const wanted = await configWith({ identities: [web, { id: API, socket: '/api' }] })
  assert.equal((await bench.live.apply(wanted, signal)).socketsOpened, 2)
  assert.deepEqual([...bench.listening].toSorted(), ['/api', '/sds', '/web'])
})

test('a socket that cannot be opened touches no identity', async () => {
  const bench = new Bench(await configWith({ identities: [WEB, { id: API, tokenFile: '/a' }] }))
  bench.refused.add('/x')
  const wanted = await configWith({ identities: [{ id: API, socket: '/api' }], sockets: [{ path: '/x' }] })
  await assert.rejects(bench.live.apply(wanted, signal), /Cannot use \/x/)
  assert.deepEqual(bench.log, [])
  assert.deepEqual(
    bench.live.sockets().map(({ path }) => path),
    ['/sds'],
  )
})

test('a new socket that another process has keeps nothing else out, and is not opened again by the next reload', async () => {
  const bench = new Bench(await configWith({ identities: [WEB] }))
  const wanted = await configWith({ identities: [WEB, { id: API, socket: '/api' }, { id: DB, socket: '/db' }] })
  bench.taken.add('/api')
  const changes = await bench.live.apply(wanted, signal)
  assert.deepEqual([changes.identitiesAdded, changes.socketsOpened, changes.socketsWaiting], [2, 1, 1])
  assert.equal(describeChanges(changes), '2 identities added, 1 socket opened, 1 waiting for another process to leave')
  bench.log.length = 0
  assert.equal(describeChanges(await bench.live.apply(wanted, signal)), 'identities and sockets are the same')
  assert.deepEqual([bench.log.filter(line => /listen|stop/.test(line)), bench.failed], [[], []])
})

test('a socket that cannot replace another is reported, and tried again at the next reload', async () => {
  const bench = new Bench(await configWith({ identities: [{ id: WEB, socket: '/own' }, API] }))
  const wanted = await configWith({ identities: [WEB, { id: API, socket: '/own' }] })
  bench.refused.add('/own')
  const changes = await bench.live.apply(wanted, signal)
  assert.deepEqual([changes.socketsOpened, changes.socketsClosed, bench.failed], [0, 1, ['/own']])
  bench.refused.clear()
  assert.equal((await bench.live.apply(wanted, signal)).socketsOpened, 1)
  assert.deepEqual([...bench.listening].toSorted(), ['/own', '/sds'])
})

test('the own socket of a removed identity stays until the identity is forgotten, and is closed at once when it gets another', async () => {
  const bench = new Bench(await configWith({ identities: [{ id: WEB, socket: '/web' }, API] }))
  await bench.live.apply(await configWith({ identities: [API] }), signal)
  bench.live.onForgotten(API)
  assert.deepEqual([...bench.listening], ['/sds', '/web'])
  bench.live.onForgotten(WEB)
  assert.deepEqual([...bench.listening], ['/sds'])

  await bench.live.apply(await configWith({ identities: [{ id: API, socket: '/a' }] }), signal)
  const moved = await bench.live.apply(await configWith({ identities: [{ id: API, socket: '/b' }] }), signal)
  assert.deepEqual([moved.socketsOpened, moved.socketsClosed], [1, 1])
  assert.deepEqual([...bench.listening], ['/sds', '/b'])
})

test('an identity that comes back keeps its socket, though it was forgotten in between', async () => {
  const bench = new Bench(await configWith({ identities: [{ id: WEB, socket: '/web' }, API] }))
  await bench.live.apply(await configWith({ identities: [API] }), signal)
  await bench.live.apply(await configWith({ identities: [API, { id: WEB, socket: '/web' }] }), signal)
  bench.live.onForgotten(WEB)
  assert.ok(bench.listening.has('/web'))
})

test('the own socket of an identity that a pod still has is closed at once when the list no longer names it', async () => {
  const bench = new Bench(await configWith({ identities: [{ id: WEB, socket: '/web' }, API] }))
  bench.union.replace('kubernetes', new Map([[WEB, {}]]))
  const changes = await bench.live.apply(await configWith({ identities: [API] }), signal)
  assert.deepEqual([changes.identitiesRemoved, changes.socketsClosed], [0, 1])
  assert.deepEqual([[...bench.held.keys()], [...bench.listening]], [[WEB, API], ['/sds']])

  bench.union.replace('kubernetes', new Map())
  assert.deepEqual([...bench.held.keys()], [API])
})

test('other rules of a shared socket are put in force, and other keys of it are named until the agent starts again', async () => {
  const bench = new Bench(await configWith({ identities: [WEB], sockets: [{ path: '/sds', callers: [{ uid: 7 }] }] }))
  const allow = ['spiffe://cluster.local/*']
  const wanted = { path: '/sds', allow, mode: '0600' }
  for (const [socketsChanged, more] of [
    [1, {}],
    [0, {}],
    [1, { onDemand: true }],
  ] as const) {
    const config = await configWith({ identities: [WEB], sockets: [{ ...wanted, ...more }] })
    const changes = await bench.live.apply(config, signal)
    assert.deepEqual([changes.socketsChanged, changes.needsRestart], [socketsChanged, ['sockets[0].mode']])
    assert.equal(bench.live.sockets()[0]?.mode, 0o660)
  }
  assert.deepEqual(bench.access, [
    { path: '/sds', allow, onDemand: false },
    { path: '/sds', allow, onDemand: true },
  ])
})

test('refused rules, and rules beside a socket that cannot be opened, change nothing', async () => {
  const bench = new Bench(await configWith({ identities: [WEB] }))
  const allow = ['spiffe://cluster.local/*']
  const wanted = await configWith({ identities: [WEB, API], sockets: [{ path: '/sds', allow }, { path: '/x' }] })
  for (const path of ['/x', '/sds']) {
    bench.refused.clear()
    bench.refused.add(path)
    await assert.rejects(bench.live.apply(wanted, signal), { message: `Cannot use ${path}` })
    assert.deepEqual([bench.access, bench.live.sockets()[0]?.allow], [[], []])
    assert.deepEqual([[...bench.held.keys()], [...bench.listening]], [[WEB], ['/sds']])
  }
})

test('changes are logged in one line', () => {
  const none: LiveChanges = {
    identitiesAdded: 0,
    identitiesRemoved: 0,
    socketsOpened: 0,
    socketsWaiting: 0,
    socketsClosed: 0,
    socketsChanged: 0,
    needsRestart: [],
  }
  const cases: readonly [Partial<LiveChanges>, string][] = [
    [{}, 'identities and sockets are the same'],
    [{ identitiesAdded: 3, identitiesRemoved: 1, socketsOpened: 1 }, '3 identities added, 1 removed, 1 socket opened'],
    [{ identitiesRemoved: 1, socketsClosed: 2 }, '1 identity removed, 2 sockets closed'],
    [{ socketsOpened: 2, socketsClosed: 1 }, '2 sockets opened, 1 closed'],
    [{ identitiesAdded: 1, socketsChanged: 2 }, '1 identity added, 2 sockets changed'],
  ]
  for (const [changes, text] of cases) assert.equal(describeChanges({ ...none, ...changes }), text)
})

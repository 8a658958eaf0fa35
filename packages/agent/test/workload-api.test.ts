/** Programs of others are clients of the SPIFFE Workload API as they are: go-spiffe, and spiffe-helper. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { FakeCA } from '@livery/ca-plugins/conformance'
import { SystemClock } from '@livery/core/plugin'
import { readPeerCredentials } from '@livery/native-keygen'
import { freePort, TemporaryFolder, temporaryFolder } from '@livery/test-support'
import { svidsOf, WorkloadApiStandIn } from '../../ca-plugins/test/workload-api-stand-in.ts'
import type { TrustStatus } from '../src/admin/routes.ts'
import type { ListedRoot } from '../src/commands/ca-root-socket.ts'
import { get, livery, Process, startAgent, until } from './envoy-bench.ts'
import { LiveryProcess } from './livery-process.ts'
import { buildPrograms, WorkloadProcess } from './workload-programs.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const LONG = 60_000

const built = await buildPrograms({ after })
const skip = typeof built === 'string' ? built : false
const programs = typeof built === 'string' ? { workload: '', helper: '' } : built

interface Fetched {
  readonly ids: readonly string[]
  /** One for each of `ids`. */
  readonly hints: readonly string[]
  readonly domains: readonly string[]
  /** How many keys of JWT-SVIDs, by trust domain. */
  readonly keys: Readonly<Record<string, number>>
  readonly jwt: string
  readonly validate: string
}

interface Sources {
  readonly keys: number
  readonly roots: number
  readonly jwt: string
}

interface Update {
  readonly id: string
  readonly serial: string
  readonly roots: number
  readonly error?: string
}

interface Calls {
  readonly good: number
  readonly failures: readonly string[]
  /** Keys of issuers under which the server has shown certificates. */
  readonly issuers: number
}

test('go-spiffe fetches every identity of its socket, and watches the rotation', { skip }, async t => {
  const folder = temporaryFolder(t)
  await using agent = await startAgent(folder, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'embedded' },
    ttl: '8s',
    identities: [{ id: WEB, socket: 'run/web.sock' }, API],
    sockets: [{ path: 'run/shared.sock', allow: [API, WEB], workloadApi: true }, { path: 'run/sds.sock' }],
  })
  const socket = (name: string) => join(folder, 'run', `${name}.sock`)
  await using shared = new WorkloadProcess<Fetched>(programs.workload, ['fetch'], socket('shared'))
  const { ids, domains, keys, jwt, validate } = await shared.event()
  assert.deepEqual([ids, domains, keys], [[API, WEB], ['spiffe://cluster.local'], { 'spiffe://cluster.local': 0 }])
  assert.match(jwt, /Unimplemented.*no JWT-SVIDs/)
  assert.match(validate, /Unimplemented.*validates no JWT-SVIDs/)
  await using watcher = new WorkloadProcess<Update>(programs.workload, ['watch'], socket('web'))
  await until(
    'three certificates',
    async () => new Set(watcher.events.map(({ serial }) => serial)).size >= 3 || undefined,
  )
  assert.deepEqual(
    watcher.events.filter(({ id, roots, error }) => id !== WEB || roots !== 1 || error !== undefined),
    [],
  )
  assert.doesNotMatch(agent.output, /PRIVATE KEY/)
})

test("go-spiffe's sources of JWT keys and of all bundles are there at once, with no JWT key", { skip }, async t => {
  const folder = temporaryFolder(t)
  await using _agent = await startAgent(folder, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'embedded' },
    identities: [{ id: WEB, socket: 'run/web.sock' }],
  })
  const args = ['sources', 'cluster.local']
  await using program = new WorkloadProcess<Sources>(programs.workload, args, join(folder, 'run/web.sock'))
  const { keys, roots, jwt } = await program.event()
  assert.deepEqual([keys, roots], [0, 1])
  assert.match(jwt, /Unimplemented.*no JWT-SVIDs/)
})

test('go-spiffe of a user that no rule lets in is refused with the reason', {
  skip: skip || (readPeerCredentials ? false : 'no addon to distinguish callers'),
}, async t => {
  const folder = temporaryFolder(t)
  const callers = [{ uid: (process.getuid?.() ?? 0) + 1 }]
  await using _agent = await startAgent(folder, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'embedded' },
    identities: [{ id: WEB, socket: { path: 'run/web.sock', callers } }],
  })
  await using program = new WorkloadProcess(programs.workload, ['fetch'], join(folder, 'run/web.sock'))
  await assert.rejects(program.event(), /code = PermissionDenied desc = this socket does not let in this caller/)
})

test('hints and federated bundles of a Workload API that is the CA reach go-spiffe', { skip }, async t => {
  const folder = temporaryFolder(t)
  using clock = new SystemClock()
  using ca = await FakeCA.create({ clock })
  using other = await FakeCA.create({ clock })
  await using server = await WorkloadApiStandIn.start(join(folder, 'upstream.sock'))
  const svids = await svidsOf(ca, [WEB, API])
  const hinted = svids.map((svid, index) => ({ ...svid, hint: index === 0 ? 'internal' : '' }))
  server.give(hinted, { 'cluster.local': ca.trustBundle(), 'other.example': other.trustBundle() })
  await using _agent = await startAgent(folder, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'spiffe', address: server.address },
    identities: [WEB, API],
    sockets: [{ path: 'run/shared.sock', allow: [WEB, API], workloadApi: true }],
  })
  const socket = join(folder, 'run/shared.sock')
  const fetched = await until('both certificates and bundles are served', async () => {
    await using program = new WorkloadProcess<Fetched>(programs.workload, ['fetch'], socket)
    const event = await program.event()
    return event.ids.length === 2 && event.domains.length === 2 ? event : undefined
  })
  assert.deepEqual(fetched.hints, ['internal', ''])
  const domains = ['spiffe://cluster.local', 'spiffe://other.example']
  assert.deepEqual([[...fetched.domains].sort(), Object.keys(fetched.keys).sort()], [domains, domains])
  server.give(hinted, { 'cluster.local': ca.trustBundle() })
  await until('the other trust domain is gone', async () => {
    await using program = new WorkloadProcess<Fetched>(programs.workload, ['fetch'], socket)
    return (await program.event()).domains.length === 1 || undefined
  })
})

test('two programs with go-spiffe do mutual TLS through a root rotation, and no handshake fails', { skip }, async t => {
  using folder = new TemporaryFolder()
  const { path } = folder
  await writeFile(
    join(path, 'tokens.yaml'),
    `- { token: some-secret-of-web, identity: ${WEB} }\n- { token: some-secret-of-api, identity: ${API} }\n`,
  )
  const address = `127.0.0.1:${await freePort()}`
  await using ca = new LiveryProcess(['ca', '--tokens', 'tokens.yaml', '--dir', 'ca', '--listen', address], {
    cwd: path,
  })
  await ca.line(/CA of cluster\.local on/)
  const bundle = join(path, 'ca', 'root.pem')
  const announce = () => copyFile(bundle, join(path, 'roots.pem'))
  await announce()
  const identity = async (id: string, name: string) => {
    await writeFile(join(path, `${name}.token`), `some-secret-of-${name}`, { mode: 0o600 })
    return { id, socket: `run/${name}.sock`, tokenFile: `${name}.token` }
  }
  await using agent = await startAgent(path, {
    trustDomain: 'cluster.local',
    ttl: '20s',
    rotation: { ratio: 0.25, jitter: 0.05, settle: '2s', overlap: '2s' },
    ca: { plugin: 'citadel', address, rootCert: bundle },
    trust: { anchors: ['roots.pem'] },
    identities: [await identity(WEB, 'web'), await identity(API, 'api')],
  })
  const root = async (...args: readonly string[]) =>
    JSON.parse(await livery(path, 'ca', 'root', ...args, '--dir', 'ca', '--json')) as readonly ListedRoot[]
  const rootsOf = async () => {
    const { trustDomains }: TrustStatus = JSON.parse((await get(agent.adminPort, '/trust')).body)
    return trustDomains[0]?.roots ?? []
  }
  const leavesUnder = async ({ id }: ListedRoot) =>
    (await rootsOf()).find(({ fingerprint }) => fingerprint === id)?.leaves ?? 0

  await using server = new WorkloadProcess<{ readonly address: string }>(
    programs.workload,
    ['serve', WEB],
    join(path, 'run/api.sock'),
  )
  const { address: serves } = await server.event()
  await using client = new WorkloadProcess<Calls>(programs.workload, ['call', serves, API], join(path, 'run/web.sock'))
  await until('handshakes succeed', async () => (await client.ask()).good > 20 || undefined)

  const [old, next] = await root('add')
  assert.ok(old && next)
  await announce()
  await root('switch', next.id)
  await until('the new root is known', async () => (await rootsOf()).length === 2 || undefined)
  await until(
    'both certificates are under the new root',
    async () => ((await leavesUnder(next)) === 2 && (await leavesUnder(old)) === 0) || undefined,
    LONG,
  )
  await root('remove', old.id)
  await announce()
  await until('the old root leaves', async () => (await rootsOf()).length === 1 || undefined, LONG)
  const { good } = await client.ask()
  await until('handshakes go on', async () => (await client.ask()).good > good + 20 || undefined)
  const calls = await client.ask()
  t.diagnostic(`${calls.good} handshakes`)
  assert.deepEqual(calls.failures, [], server.stderr)
  assert.equal(calls.issuers, 2)
})

test('spiffe-helper writes the files of its identity, and writes them again at each renewal, also where it is to fetch JWT-SVIDs', {
  skip,
}, async () => {
  using folder = new TemporaryFolder()
  const { path } = folder
  await using _agent = await startAgent(path, {
    trustDomain: 'cluster.local',
    ca: { plugin: 'embedded' },
    ttl: '8s',
    identities: [{ id: WEB, socket: 'run/web.sock' }],
  })
  const jwts = '[{ jwt_audience = "audience", jwt_svid_file_name = "svid.jwt" }]'
  for (const extra of ['', `jwt_bundle_file_name = "keys.json"\njwt_svids = ${jwts}\n`]) {
    const certificates = join(path, extra === '' ? 'certs' : 'certs-and-jwts')
    await mkdir(certificates)
    const config = {
      agent_address: join(path, 'run/web.sock'),
      cert_dir: certificates,
      svid_file_name: 'svid.pem',
      svid_key_file_name: 'key.pem',
      svid_bundle_file_name: 'bundle.pem',
    }
    const hcl = Object.entries(config).map(([key, value]) => `${key} = ${JSON.stringify(value)}\n`)
    await writeFile(join(path, 'helper.conf'), [...hcl, extra].join(''))
    const pem = (name: string) => readFile(join(certificates, name))
    await using _helper = new Process(programs.helper, ['-config', join(path, 'helper.conf')], { cwd: path })
    const serials = new Set<string>()
    await until('three certificates are written', async () => {
      serials.add(new X509Certificate(await pem('svid.pem')).serialNumber)
      return serials.size >= 3 || undefined
    })
    const leaf = new X509Certificate(await pem('svid.pem'))
    assert.equal(leaf.subjectAltName, `URI:${WEB}`)
    assert.match((await pem('key.pem')).toString(), /^-----BEGIN PRIVATE KEY-----/)
    assert.ok(leaf.verify(new X509Certificate(await pem('bundle.pem')).publicKey))
    if (extra !== '') assert.deepEqual(Object.keys(JSON.parse((await pem('keys.json')).toString())), ['cluster.local'])
  }
})

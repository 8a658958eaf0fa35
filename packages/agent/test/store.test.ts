/** The store with real processes: an agent that comes back while its CA is away. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { get, noEnvoy, Pair, startAgent, until } from './envoy-bench.ts'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'
const NODE = 'spiffe://cluster.local/ns/livery/sa/node'

/** A CA in its own process, and the configuration of an agent that uses it. */
async function startCa(
  cwd: string,
  listen = '127.0.0.1:0',
): Promise<{ readonly ca: LiveryProcess; readonly address: string; readonly config: object }> {
  await writeFile(
    join(cwd, 'tokens.yaml'),
    JSON.stringify([{ token: 'node', identity: NODE, impersonates: [WEB, API] }]),
  )
  await writeFile(join(cwd, 'token'), 'node')
  const ca = new LiveryProcess(['ca', '--listen', listen, '--tokens', 'tokens.yaml', '--dir', 'ca'], { cwd })
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  const config = {
    ca: { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token', impersonate: true },
    identities: [
      { id: WEB, socket: 'run/web.sock' },
      { id: API, socket: 'run/api.sock' },
    ],
    admin: { address: '127.0.0.1:0' },
    drain: '200ms',
    store: { directory: 'store' },
  }
  return { ca, address, config }
}

async function start(cwd: string, config: object): Promise<LiveryProcess> {
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  return new LiveryProcess(['run'], { cwd })
}

/** The secrets from the sockets of the two identities: certificate chain and key, and the roots. */
async function served(cwd: string) {
  const secrets = await Promise.all(
    ['web', 'api'].map(name => fetchSecrets(join(cwd, `run/${name}.sock`), ['default', 'ROOTCA'])),
  )
  return secrets.flat().toSorted((a, b) => (a.certificateChain < b.certificateChain ? -1 : 1))
}

const metricsOf = async (admin: string) => await (await fetch(`http://${admin}/metrics`)).text()

const keptFiles = async (cwd: string) =>
  (await readdir(join(cwd, 'store')).catch(() => [])).filter(name => name.endsWith('.pem'))

for (const signal of ['SIGTERM', 'SIGKILL'] as const)
  test(`after ${signal} the agent comes back while its CA is away, and serves the very same keys and roots${signal === 'SIGKILL' ? ', which are sealed from then on' : ''}`, async t => {
    const cwd = temporaryFolder(t)
    const { ca, config } = await startCa(cwd)
    await using _ = ca
    let before: Awaited<ReturnType<typeof served>>
    {
      await using agent = await start(cwd, config)
      await agent.admin()
      await agent.line(/"level":"info".*"msg":"keys in .*store are in plain text: store\.keyFile seals them"/)
      before = await served(cwd)
      if (signal === 'SIGKILL')
        await until('all is on disk', async () => (await keptFiles(cwd)).length === 3 || undefined)
      agent.kill(signal)
      await agent.ended
    }
    ca.kill('SIGKILL')
    await ca.ended

    await writeFile(join(cwd, 'store-key'), Buffer.alloc(32, 7), { mode: 0o600 })
    const sealed = { store: { directory: 'store', keyFile: 'store-key' } }
    await using agent = await start(cwd, { ...config, ...(signal === 'SIGKILL' && sealed) })
    const admin = await agent.admin()
    if (signal === 'SIGKILL') assert.deepEqual(await keptFiles(cwd), [])
    assert.deepEqual(await served(cwd), before)
    assert.equal((await fetch(`http://${admin}/healthz/ready?strict`)).status, 200)
    const metrics = await metricsOf(admin)
    await agent.lines(/"event":"restored".*"from":"store"/, 2)
    assert.match(metrics, /^istio_agent_num_outgoing_requests\{request_type="csr"\} 0$/m)
    const explained = await livery(['explain', WEB, '--admin', admin], { cwd })
    assert.match(explained.stdout, /taken from the store, as the previous process left it: serial /)
    agent.kill('SIGTERM')
    assert.deepEqual(await agent.ended, { code: 0, signal: null })
    assert.doesNotMatch(agent.stderr, /PRIVATE KEY/)
    assert.equal((await stat(join(cwd, 'store'))).mode & 0o777, 0o700)
  })

test('without a store nothing is on disk, and a restart asks the CA', async t => {
  const cwd = temporaryFolder(t)
  const { ca, config } = await startCa(cwd)
  await using _ = ca
  const serials = new Set<string>()
  for (let round = 0; round < 2; round++) {
    await using agent = await start(cwd, { ...config, store: undefined })
    await agent.admin()
    for (const { certificateChain } of await served(cwd))
      if (certificateChain) serials.add(new X509Certificate(certificateChain).serialNumber)
    agent.kill('SIGTERM')
    await agent.ended
  }
  assert.equal(serials.size, 4)
  assert.deepEqual((await readdir(cwd)).sort(), ['ca', 'livery.yaml', 'run', 'token', 'tokens.yaml'])
})

test('a damaged file is reported with its remedy, and only that identity is requested again', async t => {
  const cwd = temporaryFolder(t)
  const { ca, config } = await startCa(cwd)
  await using _ = ca
  {
    await using agent = await start(cwd, config)
    await agent.admin()
    await served(cwd)
    agent.kill('SIGTERM')
    await agent.ended
  }
  for (const name of await keptFiles(cwd))
    if ((await readFile(join(cwd, 'store', name), 'utf8')).includes(`"${WEB}"`))
      await chmod(join(cwd, 'store', name), 0o644)
  await using agent = await start(cwd, config)
  const admin = await agent.admin()
  await served(cwd)
  assert.match(
    await agent.line(/"event":"not-restored"/),
    /"level":"warn".*can be read by others \(mode 0644\): its key may be known\. Remove it/,
  )
  assert.match(await metricsOf(admin), /^istio_agent_num_outgoing_requests\{request_type="csr"\} 1$/m)
})

test('a directory that others can write to keeps the agent from starting, with the remedy', async t => {
  const cwd = temporaryFolder(t)
  await mkdir(join(cwd, 'store'))
  await chmod(join(cwd, 'store'), 0o777)
  const config = { ca: { plugin: 'embedded' }, identities: [{ id: WEB, socket: 'web.sock' }] }
  await using agent = await start(cwd, { ...config, admin: { address: '127.0.0.1:0' }, store: { directory: 'store' } })
  assert.equal((await agent.ended).code, 1)
  assert.match(
    agent.stderr,
    /Cannot keep secrets in .*store \(mode 0777, owner \d+:\d+\) can be written by others\. Run: chmod go-w /,
  )
})

test('check-config shows the store with absolute paths, and refuses unknown keys in it', async t => {
  const cwd = temporaryFolder(t)
  const config = { ca: { plugin: 'embedded' }, identities: [{ id: WEB, socket: 'web.sock' }] }
  const check = async (store: unknown) => {
    await writeFile(join(cwd, 'livery.yaml'), JSON.stringify({ ...config, store }))
    return await livery(['check-config', '--json'], { cwd })
  }
  const { stdout } = await check({ directory: 'state', bootstrap: 'pairs' })
  assert.deepEqual(JSON.parse(stdout).config.store, { directory: join(cwd, 'state'), bootstrap: join(cwd, 'pairs') })
  assert.deepEqual(await readdir(cwd), ['livery.yaml'], 'looking at it makes nothing')
  const sealed = { directory: 'state', keyFile: 'key' }
  assert.match((await check(sealed)).stderr, /warning: store\.keyFile \/.*key cannot be used: ENOENT/)
  const credential = { directory: 'state', keyFile: '/run/credentials/livery.service/absent' }
  assert.equal((await check(credential)).stderr, '', 'a credential of systemd is in its service only')
  await writeFile(join(cwd, 'key'), Buffer.alloc(31), { mode: 0o600 })
  assert.match(
    (await check(sealed)).stderr,
    /warning: store\.keyFile \/.*key has 31 bytes, not 32\. Write 32 random bytes/,
  )
  const refused = await check({ directory: 'state', mode: '0700' })
  assert.equal(refused.code, 78)
  assert.match(refused.stderr, /store\.mode: unknown key/)
  assert.match((await check({})).stderr, /store\.directory: is missing/)
})

test('a bootstrap pair is served while the CA is away, and replaced as soon as it is there', async t => {
  const cwd = temporaryFolder(t)
  const { ca, address, config } = await startCa(cwd)
  await using _ = ca
  {
    await using agent = await start(cwd, config)
    await agent.admin()
    const secrets = await served(cwd)
    const root = await readFile(join(cwd, 'ca/root.pem'), 'utf8')
    await mkdir(join(cwd, 'pairs'))
    for (const [index, { certificateChain, privateKey }] of secrets.entries())
      if (privateKey)
        await writeFile(join(cwd, 'pairs', `${index}.pem`), certificateChain + root + privateKey, { mode: 0o600 })
    agent.kill('SIGTERM')
    await agent.ended
  }
  ca.kill('SIGKILL')
  await ca.ended
  const store = { directory: 'other-store', bootstrap: 'pairs' }
  await using agent = await start(cwd, { ...config, store })
  await agent.admin()
  const before = await served(cwd)
  await agent.lines(/"event":"restored".*"from":"bootstrap"/, 2)
  const { ca: again } = await startCa(cwd, address)
  await using __ = again
  await agent.lines(/"event":"issued"/, 2)
  const after = await served(cwd)
  assert.ok(after.every(({ privateKey }) => privateKey === '' || !before.some(old => old.privateKey === privateKey)))
})

test('Envoys that start while the CA is away get their identities from an agent that restarted, and call each other', {
  skip: noEnvoy,
}, async t => {
  const cwd = temporaryFolder(t)
  const { ca, config } = await startCa(cwd)
  await using _ = ca
  let serials: readonly string[]
  {
    await using agent = await start(cwd, config)
    await agent.admin()
    serials = (await served(cwd)).flatMap(({ certificateChain }) =>
      certificateChain ? [new X509Certificate(certificateChain).serialNumber.toLowerCase()] : [],
    )
    agent.kill('SIGTERM')
    await agent.ended
  }
  ca.kill('SIGKILL')
  await ca.ended
  await using agent = await startAgent(cwd, config)
  await using pair = await Pair.start(cwd, { api: join(cwd, 'run/api.sock'), web: join(cwd, 'run/web.sock') })
  await pair.live()
  const answer = await get(pair.port, '/')
  assert.deepEqual([answer.status, answer.headers['x-caller']], [200, WEB])
  const shown = [...(await pair.api.certificates()), ...(await pair.web.certificates())].map(({ serial }) => serial)
  assert.deepEqual(shown.toSorted(), serials.toSorted())
  assert.doesNotMatch(agent.output, /PRIVATE KEY/)
})

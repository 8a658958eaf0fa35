/** The agent without each module that it can do without: its line in the list and its folder are gone, and the rest serves. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const AGENT = fileURLToPath(new URL('..', import.meta.url))
/** Where the other packages are found as from the agent itself. */
const CACHE = join(AGENT, '../../.cache')
const WEB = 'spiffe://cluster.local/ns/default/sa/web'

/** The sources of the agent without a module. */
class AgentWithout implements Disposable {
  readonly folder: string
  readonly program: string

  constructor(name: string, directory: string) {
    mkdirSync(CACHE, { recursive: true })
    this.folder = mkdtempSync(join(CACHE, 'without-'))
    this.program = join(this.folder, 'bin/livery.js')
    const gone = join(AGENT, 'src', directory)
    const filter = (path: string) => path !== gone && !path.endsWith('.test.ts')
    for (const part of ['src', 'bin', 'package.json'])
      cpSync(join(AGENT, part), join(this.folder, part), { recursive: true, filter })
    symlinkSync(join(AGENT, 'node_modules'), join(this.folder, 'node_modules'))
    const list = join(this.folder, 'src/runtime/app.ts')
    const lines = readFileSync(list, 'utf8').split('\n')
    const kept = lines.filter(line => line !== `  .with(${name})` && !line.endsWith(`'../${directory}/module.ts'`))
    assert.equal(lines.length - kept.length, 2)
    writeFileSync(list, kept.join('\n'))
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true })
  }
}

interface Row {
  readonly module: string
  /** Default: the name of the module. */
  readonly folder?: string
  /** A configuration that asks for it, and the key that is refused then. */
  readonly asks?: object
  readonly key?: string
}

const ROWS: readonly Row[] = [
  { module: 'store', asks: { store: { directory: 'store' } }, key: 'store' },
  { module: 'files', asks: { files: { allow: [] } }, key: 'files' },
  { module: 'takeover', asks: { sds: { takeover: true } }, key: 'sds.takeover' },
  {
    module: 'kubernetesSecrets',
    folder: 'kubernetes-secrets',
    asks: { kubernetesSecrets: { namespaces: ['edge'] } },
    key: 'kubernetesSecrets',
  },
  { module: 'pods', folder: 'kubernetes', asks: { kubernetes: { nodeName: 'node-1' } }, key: 'kubernetes' },
  {
    module: 'output',
    asks: { identities: [{ id: WEB, output: { directory: 'out' } }] },
    key: String.raw`identities\[0\].output`,
  },
  { module: 'page' },
]

for (const { module, folder = module, asks, key } of ROWS)
  test(`without ${module} the agent serves${key === undefined ? '' : ', and a configuration that asks for it is refused'}`, async t => {
    using agent = new AgentWithout(module, folder)
    const cwd = temporaryFolder(t)
    const write = (more: object = {}) => {
      const sockets = [{ path: 'sds.sock', allow: [WEB] }]
      const config = { ca: { plugin: 'embedded' }, identities: [WEB], sockets, admin: { address: '127.0.0.1:0' } }
      writeFileSync(join(cwd, 'livery.yaml'), JSON.stringify({ ...config, ...more }))
    }
    const { program } = agent
    write()
    await using running = new LiveryProcess(['run'], { cwd, program })
    const admin = await running.admin()
    const [secret] = await fetchSecrets(join(cwd, 'sds.sock'), [WEB])
    const leaf = new X509Certificate(secret?.certificateChain ?? '')
    assert.ok(leaf.checkPrivateKey(createPrivateKey(secret?.privateKey ?? '')))
    assert.equal(leaf.subjectAltName, `URI:${WEB}`)
    assert.equal((await fetch(`http://${admin}/healthz/ready?mode=strict`)).status, 200)
    assert.equal((await fetch(`http://${admin}/page/state`)).status, module === 'page' ? 404 : 200)
    running.kill('SIGTERM')
    assert.deepEqual(await running.ended, { code: 0, signal: null })
    if (!asks) return

    write(asks)
    await using refused = new LiveryProcess(['run'], { cwd, program })
    const line = await refused.line(/this build of livery|livery .* serves/)
    assert.match(line, new RegExp(`livery\\.yaml:1: ${key}: this build of livery has no module "${module}"`))
    assert.equal((await refused.ended).code, 78)
  })

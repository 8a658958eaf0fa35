/** The configurations in the papers are accepted as they stand, and the pages of migration name keys that there are. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { parseAllDocuments } from 'yaml'
import { environmentSettings } from '../src/config/environment-settings.ts'
import { loadConfig } from '../src/config/load.ts'
import { BUILT_IN_CA_PLUGINS } from '../src/plugin/built-in-plugins.ts'
import { blocksOf, PAPERS, read } from './papers.ts'
import { writePluginModule } from './plugin-module.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const packages = new URL('../../', import.meta.url)
const folder = temporaryFolder({ after })

await writePluginModule(
  folder,
  {
    fields: `needs: ['tls', 'credentials'],
      options: Object.fromEntries(['address', 'url'].map(name => [name, { type: 'string', description: 'where' }])),`,
  },
  'my-ca.js',
)

function page(path: string): string {
  return readFileSync(new URL(path, packages), 'utf8')
}

const PAGES = Object.keys(BUILT_IN_CA_PLUGINS).map(name => `ca-plugins/docs/${name}.md`)

for (const path of [...PAGES, 'ca-plugins/docs/writing-a-plugin.md'])
  test(`${path}: the first configuration is accepted unchanged`, async () => {
    const [, example] = /```yaml\n([\s\S]*?)```/.exec(page(path)) ?? []
    assert.ok(example)
    const file = join(folder, 'livery.yaml')
    writeFileSync(file, example.replace('./index.ts', './my-ca.js'))
    await loadConfig({ file, environment: {}, workingDirectory: folder, terminal: false })
  })

/** Blocks that are not a configuration of the agent, or name a plugin that is not here. */
const MARKS = new Set(['', 'ca', 'envoy', 'kubernetes', 'plugin', 'tokens'])

/** What a configuration of one section leaves out. */
const LEFT_OUT = { ca: { plugin: 'embedded' }, identities: [WEB], sockets: [{ path: 'run/sds.sock' }] }

test('every configuration in the papers is accepted', async () => {
  const blocks = PAPERS.flatMap(paper => blocksOf(paper, 'yaml').map(block => ({ paper, ...block })))
  assert.deepEqual(
    blocks.filter(({ mark }) => !MARKS.has(mark)),
    [],
  )
  const loaded = blocks
    .filter(({ mark }) => mark === '')
    .flatMap(({ paper, text }) => parseAllDocuments(text).map(document => ({ paper, config: document.toJS() })))
  assert.ok(loaded.length > 30)
  for (const { paper, config } of loaded) {
    const file = join(folder, 'paper.yaml')
    const whole = { ...LEFT_OUT, ...config }
    writeFileSync(file, JSON.stringify(whole).replace('./index.ts', './my-ca.js'))
    const environment = paper === 'docs/start/istio.md' ? { NODE_NAME: 'node-1' } : {}
    const loading = loadConfig({ file, environment, workingDirectory: folder, terminal: false })
    await assert.doesNotReject(loading, `${paper}: ${JSON.stringify(config)}`)
    const asOneCaller = (await loading).warnings.filter(warning => warning.includes('one token is shown for'))
    assert.deepEqual(asOneCaller, [], paper)
  }
})

test('docs/start/istio.md: each configuration is accepted unchanged', async () => {
  const examples = [...page('../docs/start/istio.md').matchAll(/^( *)```yaml\n( *profile: [\s\S]*?)```/gm)]
  assert.equal(examples.length, 3)
  for (const [, indent = '', example = ''] of examples) {
    const file = join(folder, 'istio.yaml')
    writeFileSync(file, example.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
    const environment = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop', NODE_NAME: 'node-1' }
    const { warnings } = await loadConfig({ file, environment, workingDirectory: folder, terminal: false })
    assert.deepEqual(warnings, [])
  }
})

test('the configuration of a node of Kubernetes is accepted unchanged, and so is the section in docs/run/pods.md', async () => {
  const example = readFileSync(new URL('../deploy/kubernetes-node.yaml', packages), 'utf8')
  const [section = ''] = /(?<=```yaml\n)kubernetes:\n[\s\S]*?(?=```)/.exec(page('../docs/run/pods.md')) ?? []
  for (const text of [example, `ca: { plugin: embedded }\n${section}`]) {
    const file = join(folder, 'livery.yaml')
    writeFileSync(file, text)
    const environment = { NODE_NAME: 'node-1' }
    const { config, warnings } = await loadConfig({ file, environment, workingDirectory: folder, terminal: false })
    assert.deepEqual(warnings, [])
    assert.equal(config.kubernetes?.nodeName, 'node-1')
    assert.deepEqual(config.kubernetes.namespaces, { only: [], except: ['kube-system'] })
  }
})

/** The keys of docs/reference/configuration.md, each with the mappings above it, without the signs for lists. */
function knownKeys(): ReadonlySet<string> {
  const keys = [...read('docs/reference/configuration.md').matchAll(/^\| \[?`([^`]+)`/gm)].map(([, key = '']) => key)
  return new Set(keys.flatMap(key => key.split('.').map((_, index, names) => names.slice(0, index + 1).join('.'))))
}

const MIGRATIONS = PAPERS.filter(paper => paper.startsWith('docs/start/migrate-'))

test('the pages of migration name keys that there are', () => {
  assert.equal(MIGRATIONS.length, 3)
  const known = knownKeys()
  assert.ok(known.has('sockets[].limits.perCaller') && known.has('ca.clientCertificate'))
  for (const paper of MIGRATIONS) {
    const cells = [...read(paper).matchAll(/^\|[^|]+\| ([^|]*?) \|/gm)].map(([, cell = '']) => cell)
    const keys = cells.flatMap(cell => /^`(?!true|false)([A-Za-z][\w.[\]]*)`/.exec(cell)?.[1] ?? [])
    assert.ok(keys.length > 15, paper)
    assert.deepEqual(
      keys.filter(key => !known.has(key.replace(/\.NAME$/, ''))),
      [],
      paper,
    )
  }
})

/** Values that a variable takes. */
const SAMPLES: Readonly<Record<string, string>> = {
  CA_PROVIDER: 'Citadel',
  ECC_SIGNATURE_ALGORITHM: 'ECDSA',
  PILOT_CERT_PROVIDER: 'kubernetes',
  PROXY_CONFIG: 'discoveryAddress: istiod:15012',
}

test('docs/start/migrate-istio-agent.md: each variable sets the key that the page names', () => {
  const [, table = ''] = /\n((?:\| `[A-Z].*\n)+)/.exec(read('docs/start/migrate-istio-agent.md')) ?? []
  const rows = [...table.matchAll(/^\| (.*?) \| `([^`]+)` \|/gm)]
  assert.ok(rows.length >= 20)
  for (const [, names = '', key = ''] of rows)
    for (const [, variable = ''] of names.matchAll(/`(\w+)`/g)) {
      const settings = environmentSettings({ [variable]: SAMPLES[variable] ?? '1' })
      const paths = settings.map(({ path }) => path.join('.'))
      assert.ok(
        paths.some(path => path === key || path.startsWith(`${key}.`)),
        `${variable}: ${paths}`,
      )
    }
})

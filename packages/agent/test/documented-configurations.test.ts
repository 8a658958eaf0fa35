/** The pages of the plugins, against the plugins: their examples are taken as they stand, their tables have every option. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { PluginOption, PluginOptions } from '@livery/core'
import { loadConfig } from '../src/config/load.ts'
import { BUILT_IN_CA_PLUGINS } from '../src/plugin/built-in-plugins.ts'
import { writePluginModule } from './plugin-module.ts'

const packages = new URL('../../', import.meta.url)
const folder = mkdtempSync(join(tmpdir(), 'livery-documented-'))
after(() => rmSync(folder, { recursive: true }))

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

test('docs/istio.md: each configuration is accepted unchanged', async () => {
  const examples = [...page('../docs/istio.md').matchAll(/^( *)```yaml\n( *profile: [\s\S]*?)```/gm)]
  assert.equal(examples.length, 3)
  for (const [, indent = '', example = ''] of examples) {
    const file = join(folder, 'istio.yaml')
    writeFileSync(file, example.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))
    const environment = { SERVICE_ACCOUNT: 'web', POD_NAMESPACE: 'shop' }
    const { warnings } = await loadConfig({ file, environment, workingDirectory: folder, terminal: false })
    assert.deepEqual(warnings, [])
  }
})

for (const [name, load] of Object.entries(BUILT_IN_CA_PLUGINS))
  test(`ca-plugins/docs/${name}.md: the table has the options of the plugin, with their defaults`, async () => {
    const { plugin } = await load()
    const [, table = ''] = /## Configuration\n\n((?:\|.*\n)+)/.exec(page(`ca-plugins/docs/${name}.md`)) ?? []
    const rows = [...table.matchAll(/^\| `([\w.]+)`\s*\| (.*?)\s*\|/gm)].map(([, key, cell]) => [key, cell] as const)
    const documented = new Map(rows.filter(([key]) => key !== 'cas' || plugin.needs?.includes('members') !== true))
    const options = new Map(flat(plugin.options))
    assert.deepEqual([...documented.keys()].sort(), [...options.keys()].sort())
    for (const [key, option] of options) {
      const cell = documented.get(key)
      if (option.required) assert.equal(cell, 'required', key)
      else if ('default' in option) assert.equal(cell, `\`${written(option.default)}\``, key)
      else assert.notEqual(cell, 'required', key)
    }
  })

test('the configuration of a node of Kubernetes is accepted unchanged, and so is the section in the README', async () => {
  const example = readFileSync(new URL('../deploy/kubernetes-node.yaml', packages), 'utf8')
  const [section = ''] = /(?<=```yaml\n)kubernetes:\n[\s\S]*?(?=```)/.exec(page('agent/README.md')) ?? []
  for (const text of [example, `ca: { plugin: embedded }\n${section}`]) {
    const file = join(folder, 'livery.yaml')
    writeFileSync(file, text)
    const environment = { NODE_NAME: 'node-1' }
    const { config } = await loadConfig({ file, environment, workingDirectory: folder, terminal: false })
    assert.equal(config.kubernetes?.nodeName, 'node-1')
    assert.deepEqual(config.kubernetes.namespaces, { only: [], except: ['kube-system'] })
  }
})

test('the papers name every plugin that is built in', () => {
  for (const name of Object.keys(BUILT_IN_CA_PLUGINS)) {
    assert.ok(page('agent/README.md').includes(`[\`${name}\`](../ca-plugins/docs/${name}.md)`), `agent: ${name}`)
    assert.ok(page('ca-plugins/README.md').includes(`(docs/${name}.md)`), `ca-plugins: ${name}`)
  }
})

function flat(options: PluginOptions, parent = ''): (readonly [string, PluginOption])[] {
  return Object.entries(options).flatMap(([name, option]) => {
    const path = `${parent}${name}`
    return [[path, option] as const, ...(option.type === 'object' ? flat(option.options, `${path}.`) : [])]
  })
}

function written(value: unknown): string {
  return Array.isArray(value) ? `[${value.join(', ')}]` : String(value)
}

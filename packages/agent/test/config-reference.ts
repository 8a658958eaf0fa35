/** Writes docs/reference/configuration.md: each key with its form, default and meaning, as the program has them. */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { PluginNeed, PluginOption, PluginOptions } from '@livery/core/plugin'
import * as v from 'valibot'
import { stringify } from 'yaml'
import { settingsSchema } from '../src/config/schema.ts'
import { BUILT_IN_CA_PLUGINS, BUILT_IN_CREDENTIALS } from '../src/plugin/built-in-plugins.ts'
import { USER_KEY, USER_SCHEMA } from '../src/plugin/user-key.ts'
import { credentialKeys, MEMBERS_KEY, NEEDED_KEYS, PLUGIN_KEY, TLS_KEYS } from '../src/schema/common-ca-keys.ts'
import { isTreeObject } from '../src/schema/config-tree.ts'
import { optionsSchema } from '../src/schema/plugin-schema.ts'
import { factsOf, type Shape } from '../src/schema/shape.ts'

export const PAGE = fileURLToPath(new URL('../../../docs/reference/configuration.md', import.meta.url))

/** A key as the page has it. */
interface KeyRow {
  /** `sockets[].limits.streams`: `[]` is each entry of a list, `NAME` each name of a mapping. */
  readonly path: string
  readonly form: string
  /** Markdown; empty for a mapping, whose keys have theirs. */
  readonly default: string
  readonly meaning: string | undefined
}

/** Sections whose mappings others share, before those others. */
const FIRST = ['sockets', 'output']

/** The page about a section. */
const MORE: Readonly<Record<string, string>> = {
  admin: '../run/admin.md',
  files: '../run/files.md',
  identities: '../run/certificates.md',
  idle: '../run/sockets.md#a-shared-socket',
  kubernetes: '../run/pods.md',
  output: '../run/files.md#write-an-output-directory',
  rotation: '../run/certificates.md#renewal-and-outages',
  sds: '../../packages/sds-server/README.md#guarantees',
  sockets: '../run/sockets.md',
  store: '../run/restarts.md#a-warm-restart',
  trust: '../run/roots.md',
}

/** What stands in front of the tables. */
const HEAD = `# Configuration

Every key of the configuration file. \`npm run config-reference\` writes this page from the schema of the agent.

The file is YAML 1.2 or JSON: \`--config\`, else \`$LIVERY_CONFIG\`, else \`livery.yaml\` in the working directory. Precedence: flag, environment, file, default.
Relative paths start at the file they are written in; in variables and flags, at the working directory. \`livery check-config\` checks a file, and prints each value with its
origin. It reports all invalid values at once, then all that do not fit together, with file, line, key, value, reason and remedy. [Reload](../run/restarts.md#reload) says what takes effect while the agent runs.

\`\`\`yaml
ca: { plugin: embedded, directory: state/ca }
identities:
  - { id: spiffe://cluster.local/ns/default/sa/web, socket: run/web.sock }
\`\`\`

| variable | sets |
|---|---|
| \`LIVERY_CONFIG\` | the configuration file, without \`--config\` |
| \`LIVERY_KEYGEN\` | \`native\` (fail without the addon) or \`webcrypto\`; default: the addon where it is built |
| \`NODE_NAME\` | \`kubernetes.nodeName\`, where the file has the section \`kubernetes\` |
| \`LOG\` | \`log.level\`, such as \`info,sds:debug,ca:trace\` |
| [variables of Istio's agent and ztunnel](../start/migrate-istio-agent.md#variables) | the keys named there |

| written as | is |
|---|---|
| duration | a number with a unit: \`500ms\`, \`5s\`, \`30m\`, \`24h\`, \`90d\` |
| path | relative ones start at the file they are written in |
| file mode | octal, in quotes: \`"0660"\` |
| pattern | \`*\` is part of a path segment, \`**\` the rest of the path |
| \`[]\`, \`NAME\` | in a key: each entry of a list, each name of a mapping |
`

/** The whole page. */
export async function page(): Promise<string> {
  const rows = settingRows()
  const isTop = ({ path }: KeyRow): boolean => !/[.[]/.test(path)
  const top = rows.filter(isTop)
  const sections = top.flatMap(({ path, meaning = '' }) => {
    const below = rows.filter(row => row.path !== path && row.path.split(/[.[]/)[0] === path)
    return below.length === 0 ? [] : [section(2, path, [`${sentence(meaning)}${more(path)}`, table(below)])]
  })
  const linked = new Set(sections.map(text => /^## (\w+)/.exec(text)?.[1]).concat('ca'))
  const links = top.flatMap(({ path }) => (linked.has(path) ? `[\`${path}\`](#${path.toLowerCase()})` : []))
  const single = table(top.filter(({ path }) => !linked.has(path)))
  const index = [`The sections: ${links.join(', ')}. The other keys at the top:`, single]
  return [HEAD, section(2, 'The keys', index), ...sections, ...(await caSections())].join('\n')
}

/** The keys of the file but those of `ca`. */
export function settingRows(): KeyRow[] {
  const seen: Seen = new Map()
  const { entries = {} } = mappingsOf(settingsSchema).mappings[0] ?? {}
  const names = Object.keys(entries)
  const rows = [...new Set([...FIRST, ...names])].map(name => {
    const only = { ...v.object({ [name]: entries[name] ?? v.unknown() }) }
    return [name, rowsOf(only, '', seen)] as const
  })
  const byName = new Map(rows)
  return names.flatMap(name => byName.get(name) ?? [])
}

/** The keys of `ca`: the agent's own, then those of each plugin and of each source of credentials. */
async function caSections(): Promise<string[]> {
  const common = { ...PLUGIN_KEY, ...USER_KEY, ...TLS_KEYS, ...credentialKeys({}), ...MEMBERS_KEY }
  const plugins = Object.entries(BUILT_IN_CA_PLUGINS).map(async ([name, load]) => {
    const { plugin } = await load()
    const own = optionTable(plugin.options, 'ca')
    const link = `[The page of the plugin](../../packages/ca-plugins/docs/${name}.md).`
    return section(3, `ca: ${name}`, [`${plugin.needs?.length ? `${needed(plugin.needs)} ` : ''}${link}`, own])
  })
  const known = new Map<PluginOption, string>()
  const sources: string[] = []
  for (const [name, load] of Object.entries(BUILT_IN_CREDENTIALS)) {
    const { options } = (await load()).plugin
    const title = `credentials: ${name}`
    const hasKeys = Object.keys(options).length > 0
    if (hasKeys) sources.push(section(3, title, [optionTable(withoutKnown(options, known), 'ca.credentials')]))
    for (const option of Object.values(options)) known.set(option, title)
  }
  const intro = `Who signs; required. The agent defines these keys, the plugin the others. \`user\` is for a plugin from a module:
[how the agent runs a CA plugin](../extend/plugin-process.md).`
  const credentials =
    'Where tokens for the CA come from: [credentials](../../packages/ca-plugins/docs/credentials.md). `token-file`, the default, has no keys.'
  return [
    section(2, 'ca', [intro, optionTable(common, 'ca')]),
    ...(await Promise.all(plugins)),
    section(2, 'ca.credentials', [credentials]),
    ...sources,
  ]
}

function needed(needs: readonly PluginNeed[]): string {
  const keys = needs.flatMap(need => NEEDED_KEYS[need]).map(key => `\`${key}\``)
  return `Beside these keys it takes ${keys.join(', ')}.`
}

/** Without the options within others that a table above has. */
function withoutKnown(options: PluginOptions, known: ReadonlyMap<PluginOption, string>): PluginOptions {
  const changed = Object.entries(options).map(([name, option]) => {
    if (option.type !== 'object') return [name, option] as const
    const parts = Object.entries(option.options)
    const [left, taken] = [parts.filter(([, part]) => !known.has(part)), parts.filter(([, part]) => known.has(part))]
    const [first] = taken
    if (!first) return [name, option] as const
    const description = `${option.description}. ${list(taken.map(([key]) => `\`${key}\``))} as in \`${known.get(first[1])}\``
    return [name, { ...option, description, options: Object.fromEntries(left) }] as const
  })
  return Object.fromEntries(changed)
}

function optionTable(options: PluginOptions, path: string): string {
  return table(rowsOf(optionsSchema(options, undefined, 'user' in options ? USER_SCHEMA : {}), path))
}

/** The entries of keys that have a row, with the place of their mapping. */
type Seen = Map<Shape, string>

/** The keys below `schema`, each mapping before its keys. A key whose entry is in `seen` is named with its mapping, and not repeated. */
function rowsOf(schema: Shape, path: string, seen: Seen = new Map()): KeyRow[] {
  const { suffix, mappings } = mappingsOf(schema)
  const parent = path + suffix
  return keysOf(mappings).flatMap(({ name, entry, isOptional }) => {
    if ((seen.get(entry) ?? parent) !== parent) return []
    seen.set(entry, parent)
    const place = [...(parent === '' ? [] : [parent]), name].join('.')
    const below = mappingsOf(entry)
    const shared = Map.groupBy(keysOf(below.mappings), key => seen.get(key.entry) ?? '')
    shared.delete('')
    const row: KeyRow = {
      path: place,
      form: formOf(entry),
      default: defaultCell(entry, isOptional, below.mappings.length > 0 && below.suffix === ''),
      meaning: meaningOf(entry, shared),
    }
    return [row, ...rowsOf(entry, place, seen)]
  })
}

interface MappedKey {
  readonly name: string
  readonly entry: Shape
  readonly isOptional: boolean
}

/** The keys that one mapping at least has. */
function keysOf(mappings: readonly Shape[]): MappedKey[] {
  const names = new Set(mappings.flatMap(({ entries = {} }) => Object.keys(entries)))
  return [...names].flatMap(name => {
    const owners = mappings.flatMap(({ entries = {} }) => entries[name] ?? [])
    const [entry] = owners
    return entry ? { name, entry, isOptional: owners.length < mappings.length || entry.wrapped !== undefined } : []
  })
}

function meaningOf(node: Shape, shared: ReadonlyMap<string, readonly MappedKey[]>): string | undefined {
  const meaning = v.getDescription(node.wrapped ?? node)
  const taken = [...shared].map(([place, keys]) => ` ${list(keys.map(({ name }) => `\`${name}\``))} as in \`${place}\``)
  return [meaning, ...(taken.length > 0 ? [`.${taken.join(';')}`] : [])].join('')
}

function list(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`
}

/** The mappings that a value can be, or consists of; `suffix` stands for them in a path. */
function mappingsOf(node: Shape): { readonly suffix: string; readonly mappings: readonly Shape[] } {
  const forms = formsOf(node)
  if (forms) return { suffix: '', mappings: forms.flatMap(form => mappingsOf(form).mappings) }
  if (node.wrapped) return mappingsOf(node.wrapped)
  if (node.getter) return mappingsOf(node.getter(undefined))
  if (node.entries) return { suffix: '', mappings: [node] }
  const [part, sign] = node.item ? [node.item, '[]'] : [node.value, '.NAME']
  if (!part) return { suffix: '', mappings: [] }
  const { suffix, mappings } = mappingsOf(part)
  return { suffix: sign + suffix, mappings }
}

function formOf(node: Shape): string {
  const { form } = v.getMetadata(node)
  if (typeof form === 'string')
    return form.replace(/`[^`]*`|\d{4,}/g, part => (part.startsWith('`') ? part : Number(part).toLocaleString('en')))
  const forms = formsOf(node)
  if (forms) return [...new Set(forms.map(formOf))].join(', or ')
  if (node.wrapped) return formOf(node.wrapped)
  if (node.getter) return formOf(node.getter(undefined))
  if (node.item) return `list: ${formOf(node.item)}`
  return node.value ? `names, each with: ${formOf(node.value)}` : 'mapping'
}

function formsOf(node: Shape): readonly Shape[] | undefined {
  const { forms } = v.getMetadata(node)
  return Array.isArray(forms) ? forms : undefined
}

function defaultCell(schema: Shape, isOptional: boolean, hasKeys: boolean): string {
  const { default: given } = factsOf(schema)
  const value = typeof given === 'function' ? given({ terminal: false }) : given
  if (value !== undefined && !(hasKeys && isTreeObject(value)))
    return `\`${stringify(value, { collectionStyle: 'flow', flowCollectionPadding: false, lineWidth: 0 }).trim()}\``
  if (isOptional) return '–'
  return value === undefined ? '**required**' : ''
}

function section(level: number, title: string, parts: readonly string[]): string {
  return `${'#'.repeat(level)} ${title}\n\n${parts.join('\n\n')}\n`
}

function table(rows: readonly KeyRow[], nameOf = ({ path }: KeyRow) => `\`${path}\``): string {
  const lines = rows.map(row => `| ${nameOf(row)} | ${row.form} | ${row.default} | ${sentence(row.meaning ?? '')} |`)
  return ['| key | what can be written | default | meaning |', '|---|---|---|---|', ...lines].join('\n')
}

function sentence(text: string): string {
  const begun =
    /^[a-z]+(?:[ ,;:]|$)/.test(text) && !text.startsWith('host:') ? text[0]?.toUpperCase() + text.slice(1) : text
  return /[.?]$/.test(begun) ? begun : `${begun}.`
}

function more(name: string): string {
  const link = MORE[name]
  return link === undefined ? '' : ` [More](${link}).`
}

if (import.meta.main) writeFileSync(PAGE, await page())

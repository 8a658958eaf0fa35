/** In the thread: whether what a module exports is a plugin, field by field, and what of it is data. */
import {
  CA_PLUGIN_API_VERSION,
  type CAPlugin,
  CREDENTIAL_PLUGIN_API_VERSION,
  type CredentialPlugin,
  KEY_TYPES,
  type PluginOption,
  type PluginOptions,
} from '@livery/core'
import * as v from 'valibot'
import { NEEDED_KEYS } from '../schema/common-ca-keys.ts'
import { isTreeObject } from '../schema/document.ts'
import { Fault, kindOf, leaf, list, record, type Schema, text } from '../schema/leaf.ts'
import { valueSchema } from '../schema/plugin-schema.ts'
import { oneOf } from '../schema/values.ts'
import { ISOLATION_KEYS } from './isolation.ts'
import type { Manifest, PluginKind, Question } from './messages.ts'
import { toWire } from './wire-error.ts'

/** What is wrong with each field, as sentences that follow the name of the module; empty if nothing is. */
export function shapeFaults(kind: PluginKind, plugin: unknown): readonly string[] {
  if (!isTreeObject(plugin)) return [`exports ${kindOf(plugin)} as its plugin. Make it by defineCAPlugin.`]
  const result = v.safeParse(kind === 'ca' ? caPlugin : credentialPlugin, plugin)
  if (!result.success)
    return result.issues.map(issue => {
      const field = (issue.path ?? []).map(({ key }) => String(key)).join('.')
      return `has a plugin that cannot be used: ${field} ${issue.message}`
    })
  return optionFaults(kind, result.output.options as PluginOptions)
}

const ASK_AUTHOR = 'See the documentation of defineCAPlugin'

function noMapping(input: unknown): string {
  return `is ${kindOf(input)}, no mapping. ${ASK_AUTHOR}.`
}

function field<T>(is: (value: unknown) => value is T, what: string): Schema<T> {
  return leaf(input => (is(input) ? input : new Fault(`is ${kindOf(input)}, not ${what}`, ASK_AUTHOR)))
}
const isFunction = (value: unknown): value is () => unknown => typeof value === 'function'
const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) > 0

function mapping<const E extends v.ObjectEntries>(entries: E) {
  return v.looseObject(entries, issue =>
    issue.received === 'undefined' ? `is missing. ${ASK_AUTHOR}.` : noMapping(issue.input),
  )
}

function common(apiVersion: number) {
  return {
    apiVersion: leaf(input => {
      if (input === apiVersion) return input
      return new Fault(
        `is ${JSON.stringify(input)}, and this version of Livery loads ${apiVersion}`,
        'Install a version of the plugin that fits',
      )
    }),
    name: text(
      input => (/^[a-z][a-z0-9-]*$/.test(input) ? input : new Fault('has other than a-z, 0-9 and -', 'Rename it')),
      ASK_AUTHOR,
    ),
    options: record(
      v.lazy(() => option),
      noMapping,
    ),
    check: v.optional(field(isFunction, 'a function')),
    create: field(isFunction, 'a function'),
  }
}

const OPTION_TYPES = ['string', 'path', 'duration', 'number', 'boolean', 'list', 'map', 'object', 'objects'] as const

const option: Schema<unknown> = v.lazy(() =>
  mapping({
    type: oneOf(OPTION_TYPES),
    description: field((value): value is string => typeof value === 'string', 'a text'),
    choices: v.optional(list(field((value): value is string => typeof value === 'string', 'a text'))),
    problem: v.optional(field(isFunction, 'a function')),
    options: v.optional(
      v.record(
        v.string(),
        v.lazy(() => option),
      ),
    ),
  }),
)

const caPlugin = mapping({
  ...common(CA_PLUGIN_API_VERSION),
  needs: v.optional(list(oneOf(['tls', 'credentials']))),
  capabilities: mapping({
    roots: oneOf(['none', 'poll', 'push']),
    batch: v.optional(field(isCount, 'a whole number from 1 on')),
    ttl: oneOf(['honoured', 'clamped', 'ignored']),
    san: oneOf(['csr', 'caller', 'config']),
    keyTypes: list(oneOf(KEY_TYPES)),
  }),
})
const credentialPlugin = mapping(common(CREDENTIAL_PLUGIN_API_VERSION))

/** Names that the agent has taken, and defaults that the option itself would refuse. */
function optionFaults(kind: PluginKind, options: PluginOptions): readonly string[] {
  const own = kind === 'ca' ? ['plugin', ...Object.values(NEEDED_KEYS).flat()] : ['source']
  const taken = [...own, ...Object.keys(ISOLATION_KEYS)]
  return Object.entries(options).flatMap(([name, each]) => {
    const at = `has a plugin that cannot be used: options.${name}`
    if (taken.includes(name)) return [`${at} is a key of Livery's own. Rename it.`]
    if (!('default' in each) || each.default === undefined) return []
    const result = v.safeParse(valueSchema(each), each.default)
    return result.success ? [] : [`${at}.default ${result.issues[0].message}`]
  })
}

/** As JSON would write it, but with `true` for each `problem`. */
export function manifestOf(plugin: CAPlugin | CredentialPlugin): Manifest {
  const { name, options, check } = plugin
  const { capabilities, needs }: Partial<CAPlugin> = 'capabilities' in plugin ? plugin : {}
  const mark = (_: string, value: unknown) => (typeof value === 'function' ? true : value)
  return JSON.parse(JSON.stringify({ name, capabilities, needs, options, checks: check !== undefined }, mark))
}

/** What the option says of the value; `null` if nothing is wrong. */
export function problemOf(options: PluginOptions, { option: path, value }: Question): string | null {
  const found = path.split('.').reduce<{ options?: PluginOptions; option?: PluginOption }>(
    (at, name) => {
      const option = at.options?.[name]
      return option ? { option, ...('options' in option && { options: option.options }) } : {}
    },
    { options },
  ).option
  try {
    const problem = found?.type === 'string' ? found.problem?.(value) : undefined
    return problem === undefined ? null : String(problem)
  } catch (error) {
    return `cannot be checked, since the plugin failed: ${toWire(error).message}. Mend the plugin`
  }
}

/** What a thread or process described: it may be hostile, so its word for the form is not taken. */
export function manifestFaults(kind: PluginKind, manifest: unknown): readonly string[] {
  const revived = withFunctions(manifest)
  if (!isTreeObject(revived)) return ['describes no plugin. Make it by defineCAPlugin.']
  const create = () => {}
  return shapeFaults(kind, { ...revived, apiVersion: API_VERSIONS[kind], create, check: undefined })
}

const API_VERSIONS = { ca: CA_PLUGIN_API_VERSION, credentials: CREDENTIAL_PLUGIN_API_VERSION } as const

/** With a function in place of each `problem: true`. */
function withFunctions(manifest: unknown): unknown {
  if (Array.isArray(manifest)) return manifest.map(withFunctions)
  if (!isTreeObject(manifest)) return manifest
  const entries = Object.entries(manifest).map(([key, value]) => {
    return [key, key === 'problem' && value === true ? () => undefined : withFunctions(value)] as const
  })
  return Object.fromEntries(entries)
}

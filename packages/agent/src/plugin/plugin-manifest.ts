/** Runs in a plugin's process: checks field by field that a module exports a plugin, and extracts its data. */
import {
  CA_PLUGIN_API_VERSION,
  type CAPlugin,
  CREDENTIAL_PLUGIN_API_VERSION,
  type CredentialPlugin,
  type PluginKind,
  type PluginOption,
  type PluginOptions,
  pluginFaults,
} from '@livery/core/plugin'
import { check } from '../schema/check.ts'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault, faultFrom } from '../schema/fault.ts'
import { valueSchema } from '../schema/plugin-schema.ts'
import { kindOf } from '../schema/schema-parts.ts'
import type { Manifest, Question } from './messages.ts'
import { toWire } from './wire-error.ts'

/** The faults of each field, as texts that follow the name of the module; empty if there are none. */
export function shapeFaults(kind: PluginKind, plugin: unknown): readonly Fault[] {
  if (!isTreeObject(plugin)) return [new Fault(`exports ${kindOf(plugin)} as its plugin`, 'Make it by defineCAPlugin')]
  const faults = pluginFaults(kind, plugin).map(faultFrom)
  const found = faults.length > 0 ? faults : defaultFaults(plugin['options'])
  return found.map(({ reason, remedy }) => new Fault(`has a plugin that cannot be used: ${reason}`, remedy))
}

/** Defaults that their own option refuses. */
function defaultFaults(options: unknown): readonly Fault[] {
  return Object.entries(options as PluginOptions).flatMap(([name, option]) => {
    if (!('default' in option) || option.default === undefined) return []
    const checked = check(valueSchema(option), option.default)
    if ('output' in checked) return []
    return checked.refusals.map(({ fault }) => new Fault(`options.${name}.default ${fault.reason}`, fault.remedy))
  })
}

/** The plugin as JSON, with `true` for each `problem`. */
export function manifestOf(plugin: CAPlugin | CredentialPlugin): Manifest {
  const { name, options, check } = plugin
  const { capabilities, needs }: Partial<CAPlugin> = 'capabilities' in plugin ? plugin : {}
  const mark = (_: string, value: unknown) => (typeof value === 'function' ? true : value)
  return JSON.parse(JSON.stringify({ name, capabilities, needs, options, checks: check !== undefined }, mark))
}

/** The option's problem with the value; `null` if there is none. */
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
    return `cannot be checked, since the plugin failed: ${toWire(error).message}. Fix the plugin`
  }
}

/** The faults of a manifest from a process, which may be hostile. */
export function manifestFaults(kind: PluginKind, manifest: unknown): readonly Fault[] {
  const revived = withFunctions(manifest)
  if (!isTreeObject(revived)) return [new Fault('describes no plugin', 'Make it by defineCAPlugin')]
  const create = () => {}
  return shapeFaults(kind, { ...revived, apiVersion: API_VERSIONS[kind], create, check: undefined })
}

const API_VERSIONS = { ca: CA_PLUGIN_API_VERSION, credentials: CREDENTIAL_PLUGIN_API_VERSION } as const

/** Replaces each `problem: true` by a function. */
function withFunctions(manifest: unknown): unknown {
  if (Array.isArray(manifest)) return manifest.map(withFunctions)
  if (!isTreeObject(manifest)) return manifest
  const entries = Object.entries(manifest).map(([key, value]) => {
    return [key, key === 'problem' && value === true ? () => undefined : withFunctions(value)] as const
  })
  return Object.fromEntries(entries)
}

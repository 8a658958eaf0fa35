/** Loads the plugin that the configuration names: a built-in one, or a module. */

import type { PluginKind } from '@livery/core/plugin'
import { type CAPlugin, type CredentialPlugin, hideUserinfo } from '@livery/core/plugin'
import type { Tree, TreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { kindOf, nearest } from '../schema/schema-parts.ts'
import { BUILT_IN_CA_PLUGINS, BUILT_IN_CREDENTIALS } from './built-in-plugins.ts'
import { loadIsolatedCAPlugin, loadIsolatedCredentials } from './isolated-plugin.ts'
import type { PluginModule, PluginUser } from './messages.ts'

/** Where to look for a module. */
export interface PluginPlace {
  /** Absolute path of the file that names it, which need not exist: the base of relative paths. */
  readonly file: string
  /** Aborts the questions to a module: what it is, and later whether its configuration is right. */
  readonly signal?: AbortSignal | undefined
  /** The user of a module's process; absent: the agent's. */
  readonly user?: PluginUser
}

/** Why there is no plugin: `"embeded" is none of …`. */
interface NoPlugin {
  readonly faults: readonly Fault[]
}

interface Kind<Plugin> {
  readonly kind: PluginKind
  /** `plugin` or `source of credentials`. */
  readonly noun: string
  readonly builtIn: Readonly<Record<string, () => Promise<{ readonly plugin: Plugin }>>>
  readonly choose: string
  /** The built-in plugins that people look for under another name. */
  readonly otherNames: ReadonlyMap<string, string>
  readonly loadModule: (module: PluginModule, section: TreeObject, signal?: AbortSignal) => Promise<Plugin | NoPlugin>
}

const CA: Kind<CAPlugin> = {
  kind: 'ca',
  noun: 'plugin',
  builtIn: BUILT_IN_CA_PLUGINS,
  choose: 'Write citadel for istiod, or embedded for a trial',
  otherNames: new Map([
    ['istio', 'citadel'],
    ['istiod', 'citadel'],
  ]),
  loadModule: (module, section, signal) => loadIsolatedCAPlugin(module, section, undefined, signal),
}
const CREDENTIALS: Kind<CredentialPlugin> = {
  kind: 'credentials',
  noun: 'source of credentials',
  builtIn: BUILT_IN_CREDENTIALS,
  choose: 'Write token-file for a token in a file',
  otherNames: new Map(),
  loadModule: (module, section, signal) => loadIsolatedCredentials(module, section, undefined, signal),
}

/** `section`: the keys beside the name, which only the plugin can check. */
export function loadCAPlugin(
  name: Tree | undefined,
  place: PluginPlace,
  section: TreeObject,
): Promise<CAPlugin | NoPlugin> {
  return load(CA, name, place, section)
}

export function loadCredentialPlugin(
  name: Tree | undefined,
  place: PluginPlace,
  section: TreeObject,
): Promise<CredentialPlugin | NoPlugin> {
  return load(CREDENTIALS, name, place, section)
}

/** Whether the name means a module. Built-in plugins run in the agent. */
export function isModule(kind: PluginKind, name: Tree | undefined): boolean {
  const { builtIn } = kind === 'ca' ? CA : CREDENTIALS
  return typeof name === 'string' && !Object.hasOwn(builtIn, name)
}

async function load<Plugin extends object>(
  { kind, noun, builtIn, choose, otherNames, loadModule }: Kind<Plugin>,
  name: Tree | undefined,
  { file, signal, user }: PluginPlace,
  section: TreeObject,
): Promise<Plugin | NoPlugin> {
  if (name === undefined) return { faults: [new Fault('is missing', choose)] }
  if (typeof name !== 'string' || name === '')
    return { faults: [new Fault(`is ${name === '' ? 'empty' : kindOf(name)}, not the name of a ${noun}`, choose)] }
  const loadBuiltIn = Object.hasOwn(builtIn, name) ? builtIn[name] : undefined
  if (loadBuiltIn) return (await loadBuiltIn()).plugin
  const loaded = await loadModule({ kind, specifier: name, parent: file, ...(user && { user }) }, section, signal)
  if (!('faults' in loaded)) return loaded
  const names = Object.keys(builtIn)
  const near = otherNames.get(name) ?? nearest(name, names)
  const hint = near === undefined ? '' : `Did you mean the built-in ${near}? `
  const isBare = /^[A-Za-z0-9_-]+$/.test(name)
  const start = isBare
    ? `${JSON.stringify(hideUserinfo(name))} is none of the built-in ${names.join(', ')}, and`
    : JSON.stringify(hideUserinfo(name))
  return { faults: loaded.faults.map(({ reason, remedy }) => new Fault(`${start} ${reason}`, `${hint}${remedy}`)) }
}

/** The section `ca`: its plugins are loaded, and what they tell of their options is the form of the section. */
import type { CAPlugin, CredentialPlugin, PluginOptions } from '@livery/core'
import * as v from 'valibot'
import { ISOLATION_KEYS, readIsolation, USER_SCHEMA } from '../plugin/isolation.ts'
import { isModule, loadCAPlugin, loadCredentialPlugin, type PluginPlace } from '../plugin/load-plugin.ts'
import { credentialKeys, MEMBERS_KEY, NEEDED_KEYS, PLUGIN_KEY, TLS_KEYS } from '../schema/common-ca-keys.ts'
import type { Finding } from '../schema/config-error.ts'
import { childPath, isTreeObject, type Tree, type TreeObject } from '../schema/document.ts'
import { kindOf, type Schema } from '../schema/leaf.ts'
import { isSecretPath, optionsSchema, pathsOf } from '../schema/plugin-schema.ts'

/** What the agent makes a CA client of. */
export interface CASection {
  readonly plugin: CAPlugin
  /** What the plugin gets. */
  readonly options: Readonly<Record<string, unknown>>
  /** A path, PEM, or `system`. */
  readonly rootCert?: string
  readonly clientCertificate?: { readonly certFile: string; readonly keyFile: string }
  readonly tokenFile?: string
  /** Present if the plugin needs it. */
  readonly credentials?: {
    readonly plugin: CredentialPlugin
    readonly options: Readonly<Record<string, unknown>>
    /** Whether the section names them: else they are those of `tokenFile`. */
    readonly isGiven: boolean
  }
  /** Present if the plugin needs them. */
  readonly members?: readonly CASection[]
}

/** The plugins of the section, and by them its keys. */
export interface CAForm {
  /** Where it stands: `ca`, `ca.cas[0]`. */
  readonly at: string
  readonly plugin: CAPlugin
  readonly credentials?: CredentialPlugin
  /** All keys, those that the agent uses for its part too. */
  readonly keys: PluginOptions
  /** Which paths show a secret, those of `members` apart. */
  readonly secrets: ReadonlySet<string>
  /** None if the plugin needs none. */
  readonly members: readonly CAForm[]
}

interface Refusal {
  readonly findings: readonly Finding[]
}

/** Where a module that is named at a path of the configuration is looked for. */
type PlaceOf = (path: string) => PluginPlace

/** Loads what `ca` names. */
export async function loadCAForm(ca: Tree | undefined, placeOf: PlaceOf): Promise<CAForm | Refusal> {
  return await loadForm(ca, 'ca', placeOf)
}

const MISSING =
  'is missing. Write { plugin: citadel } for a CA such as that of istiod, or { plugin: embedded } to try things out.'

async function loadForm(ca: Tree | undefined, at: string, placeOf: PlaceOf): Promise<CAForm | Refusal> {
  if (ca === undefined) return refused(at, [MISSING])
  if (!isTreeObject(ca))
    return refused(at, [`${JSON.stringify(ca)} is ${kindOf(ca)}, no mapping. Write plugin under it.`])
  const isolation = isModule('ca', ca['plugin']) ? readIsolation(ca, at) : undefined
  if (isolation && 'findings' in isolation) return isolation
  const plugin = await loadCAPlugin(ca['plugin'], { ...placeOf(`${at}.plugin`), ...isolation }, ca)
  if ('faults' in plugin) return refused(`${at}.plugin`, plugin.faults)
  const needs = new Set(plugin.needs)
  const credentials = needs.has('credentials') ? await loadCredentials(ca, at, placeOf) : undefined
  if (credentials && 'findings' in credentials) return credentials
  const form = { at, ca, plugin, ...(credentials && { credentials }) }
  if (!needs.has('members')) return formOf(form, [])
  if (at !== 'ca')
    return refused(`${at}.plugin`, [`${plugin.name} is a list of CAs itself, and cannot be in one. List its CAs here.`])
  const members = await loadMembers(ca['cas'], `${at}.cas`, placeOf)
  return 'findings' in members ? members : formOf(form, members)
}

const DEFAULT_SOURCE = 'token-file'

async function loadCredentials(ca: TreeObject, at: string, placeOf: PlaceOf): Promise<CredentialPlugin | Refusal> {
  const given = ca['credentials']
  const source = isTreeObject(given) ? (given['source'] ?? DEFAULT_SOURCE) : DEFAULT_SOURCE
  const path = `${at}.credentials.source`
  const section = isTreeObject(given) ? given : {}
  const isolation = isModule('credentials', source) ? readIsolation(section, `${at}.credentials`) : undefined
  if (isolation && 'findings' in isolation) return isolation
  const credentials = await loadCredentialPlugin(source, { ...placeOf(path), ...isolation }, section)
  return 'faults' in credentials ? refused(path, credentials.faults) : credentials
}

async function loadMembers(cas: Tree | undefined, at: string, placeOf: PlaceOf): Promise<readonly CAForm[] | Refusal> {
  if (!Array.isArray(cas) || cas.length === 0) {
    const remedy = 'List the CAs, the preferred one first, each with its plugin.'
    if (cas === undefined) return refused(at, [`is missing. ${remedy}`])
    return refused(at, [`is ${Array.isArray(cas) ? 'empty' : `${kindOf(cas)}, no list`}. ${remedy}`])
  }
  const loaded = await Promise.all(cas.map((ca: Tree, index) => loadForm(ca, childPath(at, index), placeOf)))
  const findings = loaded.flatMap(form => ('findings' in form ? form.findings : []))
  return findings.length > 0 ? { findings } : loaded.flatMap(form => ('findings' in form ? [] : form))
}

function refused(path: string, texts: readonly string[]): Refusal {
  return { findings: texts.map(text => ({ path, text })) }
}

interface LoadedSection {
  readonly at: string
  readonly ca: TreeObject
  readonly plugin: CAPlugin
  readonly credentials?: CredentialPlugin
}

function formOf({ at, ca, plugin, credentials }: LoadedSection, members: readonly CAForm[]): CAForm {
  const { plugin: name, credentials: given } = ca
  const isSourceModule = isTreeObject(given) && isModule('credentials', given['source'])
  const keys = {
    ...PLUGIN_KEY,
    ...(isModule('ca', name) && ISOLATION_KEYS),
    ...(plugin.needs?.includes('tls') && TLS_KEYS),
    ...(credentials && credentialKeys({ ...(isSourceModule && ISOLATION_KEYS), ...credentials.options })),
    ...(members.length > 0 && MEMBERS_KEY),
    ...plugin.options,
  }
  const secrets = pathsOf(keys, at, option => 'secret' in option && option.secret === true)
  const together = plugin.capabilitiesWith?.(members.map(member => member.plugin.capabilities))
  return {
    at,
    plugin: together ? { ...plugin, capabilities: together } : plugin,
    ...(credentials && { credentials }),
    keys,
    // Also where the source has no such key, or is not even a mapping: it may have been meant for one that has.
    secrets: new Set([...secrets, `${at}.credentials.token`]),
    members,
  }
}

/** Whether a value at `path` shows a secret. */
export function showsSecret({ at, secrets, members }: CAForm, path: string): boolean {
  return isSecretPath(secrets, path, at) || members.some(member => showsSecret(member, path))
}

/** Reads the section by its form. */
export function caSchema({ plugin, credentials, keys, members }: CAForm): Schema<CASection> {
  const explain = (key: string): string | undefined => {
    if (key in ISOLATION_KEYS) return `unknown key. The built-in plugin ${plugin.name} runs in the agent. Remove it.`
    const need = NEEDS.find(each => NEEDED_KEYS[each].includes(key))
    return need && `unknown key. The plugin ${plugin.name} ${USES_NO[need]}. Remove it.`
  }
  // As many as there are: the forms were made of them.
  const others = {
    ...('isolation' in keys && USER_SCHEMA),
    ...(keys['credentials']?.type === 'object' && {
      credentials: optionsSchema(
        keys['credentials'].options,
        undefined,
        'isolation' in keys['credentials'].options ? USER_SCHEMA : {},
      ),
    }),
    ...(members.length > 0 && { cas: v.tuple(members.map(caSchema)) }),
  }
  return v.pipe(
    optionsSchema(keys, explain, others),
    v.transform(values => {
      const { rootCert, clientCertificate, tokenFile, credentials: given, cas, ...rest } = values as CommonValues
      const own = Object.entries(rest).filter(([key]) => key in plugin.options)
      const { source: _, isolation: __, user: ___, ...options } = given ?? {}
      return {
        plugin,
        options: Object.fromEntries(own),
        ...(rootCert !== undefined && { rootCert }),
        ...(clientCertificate !== undefined && { clientCertificate }),
        ...(tokenFile !== undefined && { tokenFile }),
        ...(credentials && { credentials: { plugin: credentials, options, isGiven: given !== undefined } }),
        ...(cas && { members: cas }),
      }
    }),
  )
}

const NEEDS = ['tls', 'credentials', 'members'] as const
const USES_NO = {
  tls: 'makes no TLS connection that uses it',
  credentials: 'uses no credentials',
  members: 'is one CA',
} as const

/** What the keys of the agent are, once the schema has let them through. */
interface CommonValues extends Pick<CASection, 'rootCert' | 'clientCertificate' | 'tokenFile'> {
  readonly credentials?: Readonly<Record<string, unknown>>
  readonly cas?: readonly CASection[]
}

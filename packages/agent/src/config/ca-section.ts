/** The section `ca`: loads its plugins, whose options are the keys of the section. */
import type { CAPlugin, CredentialPlugin, KeyType, PluginOption, PluginOptions } from '@livery/core/plugin'
import * as v from 'valibot'
import { isModule, loadCAPlugin, loadCredentialPlugin, type PluginPlace } from '../plugin/load-plugin.ts'
import { readUser, removedKey, USER_KEY, USER_SCHEMA } from '../plugin/user-key.ts'
import { credentialKeys, MEMBERS_KEY, NEEDED_KEYS, PLUGIN_KEY, TLS_FORMS, TLS_KEYS } from '../schema/common-ca-keys.ts'
import type { Origin, Problem } from '../schema/config-error.ts'
import { isList, isMap, isTreeObject, type Location, plain, plainMap, type TreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { optionsSchema } from '../schema/plugin-schema.ts'
import { kindOf, type Schema } from '../schema/schema-parts.ts'

/** The settings from which the agent makes a CA client. */
export interface CASection {
  readonly plugin: CAPlugin
  /** The settings that the plugin gets. */
  readonly options: Readonly<Record<string, unknown>>
  /** A path, PEM, or `system`. */
  readonly rootCert?: string
  readonly clientCertificate?: { readonly certFile: string; readonly keyFile: string }
  readonly tls?: { readonly groups?: readonly string[] }
  readonly tokenFile?: string
  /** Present if the plugin needs it. */
  readonly credentials?: {
    readonly plugin: CredentialPlugin
    readonly options: Readonly<Record<string, unknown>>
    /** Whether the section names credentials: otherwise `tokenFile` gives them. */
    readonly isGiven: boolean
  }
  /** Present if the plugin needs them. */
  readonly members?: readonly CASection[]
}

/** The wanted key type if the CA signs it; otherwise one that it signs. */
export function signableKeyType({ plugin }: CASection, wanted: KeyType): KeyType {
  const { keyTypes } = plugin.capabilities
  return keyTypes.includes(wanted) ? wanted : (keyTypes[0] ?? wanted)
}

/** The plugins of the section, and its keys, which depend on them. */
export interface SectionShape {
  readonly plugin: CAPlugin
  readonly credentials?: CredentialPlugin
  /** All keys, including the agent's own. */
  readonly keys: PluginOptions
  /** `keys`, as the search for secrets needs them. */
  readonly secretKeys: PluginOptions
  /** Empty if the plugin needs none. */
  readonly members: readonly SectionShape[]
}

interface Refused {
  readonly problems: readonly Problem[]
}

/** Where to look for a module whose name comes from `origin`. */
type PlaceOf = (origin: Origin) => PluginPlace

/** Loads the plugins that the section at `at` names: `ca`, or one of its members. */
export async function loadSectionShape(at: Location, placeOf: PlaceOf): Promise<SectionShape | Refused> {
  const { node } = at
  if (node === undefined) return refused(at, [MISSING])
  if (!isMap(node)) {
    const value = plain(node)
    const reason = `${JSON.stringify(value)} is ${kindOf(value)}, not a mapping`
    return refused(at, [new Fault(reason, 'Write plugin under it')])
  }
  const ca = plainMap(node)
  const owner = isModule('ca', ca['plugin']) ? readUser(at) : undefined
  if (owner && 'problems' in owner) return owner
  const named = at.child('plugin')
  const plugin = await loadCAPlugin(ca['plugin'], { ...placeOf(named.origin), ...owner }, ca)
  if ('faults' in plugin) return refused(named, plugin.faults)
  const needs = new Set(plugin.needs)
  const credentials = needs.has('credentials') ? await loadCredentials(at.child('credentials'), placeOf) : undefined
  if (credentials && 'problems' in credentials) return credentials
  const section = { ca, plugin, ...(credentials && { credentials }) }
  if (!needs.has('members')) return shapeOf(section, [])
  if (at.path.length > 1) {
    const reason = `${plugin.name} is a list of CAs itself, and cannot be in one`
    return refused(named, [new Fault(reason, 'List its CAs here')])
  }
  const members = await loadMembers(at.child('cas'), placeOf)
  return 'problems' in members ? members : shapeOf(section, members)
}

const MISSING = new Fault(
  'is missing',
  'Write { plugin: citadel, address: "istiod.istio-system.svc:15012", rootCert: root.pem, tokenFile: token } for istiod, or { plugin: embedded } for a trial',
)

const DEFAULT_SOURCE = 'token-file'

async function loadCredentials(at: Location, placeOf: PlaceOf): Promise<CredentialPlugin | Refused> {
  const section = isMap(at.node) ? plainMap(at.node) : {}
  const source = section['source'] ?? DEFAULT_SOURCE
  const owner = isModule('credentials', source) ? readUser(at) : undefined
  if (owner && 'problems' in owner) return owner
  const named = at.child('source')
  const credentials = await loadCredentialPlugin(source, { ...placeOf(named.origin), ...owner }, section)
  return 'faults' in credentials ? refused(named, credentials.faults) : credentials
}

async function loadMembers(at: Location, placeOf: PlaceOf): Promise<readonly SectionShape[] | Refused> {
  const { node } = at
  if (!isList(node) || node.value.length === 0) {
    const reason = isList(node) ? 'is empty' : `is ${kindOf(node && plain(node))}, not a list`
    const remedy = 'List the CAs, the preferred one first, each with its plugin'
    return refused(at, [new Fault(node ? reason : 'is missing', remedy)])
  }
  const loaded = await Promise.all(node.value.map((_, index) => loadSectionShape(at.child(index), placeOf)))
  const problems = loaded.flatMap(shape => ('problems' in shape ? shape.problems : []))
  return problems.length > 0 ? { problems } : loaded.flatMap(shape => ('problems' in shape ? [] : shape))
}

function refused(at: Location, faults: readonly Fault[]): Refused {
  return { problems: faults.map(fault => at.problem(fault)) }
}

interface LoadedSection {
  readonly ca: TreeObject
  readonly plugin: CAPlugin
  readonly credentials?: CredentialPlugin
}

function shapeOf({ ca, plugin, credentials }: LoadedSection, members: readonly SectionShape[]): SectionShape {
  const { plugin: name, credentials: given } = ca
  const source = isTreeObject(given) ? given['source'] : undefined
  const keys: PluginOptions = {
    ...PLUGIN_KEY,
    ...(isModule('ca', name) && USER_KEY),
    ...(plugin.needs?.includes('tls') && TLS_KEYS),
    ...(credentials &&
      credentialKeys({
        ...(isModule('credentials', source) && USER_KEY),
        ...credentials.options,
      })),
    ...(members.length > 0 && MEMBERS_KEY),
    ...plugin.options,
  }
  const together = plugin.capabilitiesWith?.(members.map(member => member.plugin.capabilities))
  return {
    plugin: together ? { ...plugin, capabilities: together } : plugin,
    ...(credentials && { credentials }),
    keys,
    secretKeys: { ...keys, credentials: withToken(keys['credentials']) },
    members,
  }
}

/** Accepted even where the source has no such key, or is not a mapping: the value was perhaps meant for a source that has one. */
function withToken(credentials: PluginOption | undefined): PluginOption {
  const options = credentials?.type === 'object' ? credentials.options : {}
  const token = { type: 'string', secret: true, description: '' } as const
  return { type: 'object', description: '', options: { ...options, token } }
}

/** Reads the section by its shape. */
export function caSchema({ plugin, credentials, keys, members }: SectionShape): Schema<CASection> {
  const explain = (key: string): Fault | undefined => {
    const removed = removedKey(key)
    if (removed) return removed
    if (key in USER_KEY)
      return new Fault('unknown key', `The built-in plugin ${plugin.name} runs in the agent. Remove it`)
    const need = NEEDS.find(each => NEEDED_KEYS[each].includes(key))
    return need && new Fault('unknown key', `The plugin ${plugin.name} ${USES_NO[need]}. Remove it`)
  }
  // The schema has one entry per member, since the shapes were made from them.
  const others = {
    ...('user' in keys && USER_SCHEMA),
    ...(plugin.needs?.includes('tls') && TLS_FORMS),
    ...(keys['credentials']?.type === 'object' && {
      credentials: optionsSchema(
        keys['credentials'].options,
        key => (key === 'file' ? new Fault('unknown key', 'Write tokenFile under ca') : removedKey(key)),
        'user' in keys['credentials'].options ? USER_SCHEMA : {},
      ),
    }),
    ...(members.length > 0 && { cas: v.tuple(members.map(caSchema)) }),
  }
  return v.pipe(
    optionsSchema(keys, explain, others),
    v.transform(values => {
      const { rootCert, clientCertificate, tls, tokenFile, credentials: given, cas, ...rest } = values as CommonValues
      const own = Object.entries(rest).filter(([key]) => key in plugin.options)
      const { source: _, user: __, ...options } = given ?? {}
      return {
        plugin,
        options: Object.fromEntries(own),
        ...(rootCert !== undefined && { rootCert }),
        ...(clientCertificate !== undefined && { clientCertificate }),
        ...(tls !== undefined && { tls }),
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

/** The agent's own keys of a section, after the schema has accepted them. */
interface CommonValues extends Pick<CASection, 'rootCert' | 'clientCertificate' | 'tls' | 'tokenFile'> {
  readonly credentials?: Readonly<Record<string, unknown>>
  readonly cas?: readonly CASection[]
}

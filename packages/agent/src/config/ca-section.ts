/** The section `ca`: its plugins are loaded, and what they tell of their options is the form of the section. */
import type { CAPlugin, CredentialPlugin, PluginOptions } from '@livery/core'
import * as v from 'valibot'
import { loadCAPlugin, loadCredentialPlugin, type PluginPlace } from '../ca/load-plugin.ts'
import { credentialKeys, NEEDED_KEYS, PLUGIN_KEY, TLS_KEYS } from './common-ca-keys.ts'
import { isTreeObject, type Tree } from './document.ts'
import type { Finding } from './identities.ts'
import { kindOf, type Schema } from './leaf.ts'
import { optionsSchema, pathsOf } from './plugin-schema.ts'

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
  }
}

/** The plugins of the section, and by them its keys. */
export interface CAForm {
  readonly plugin: CAPlugin
  readonly credentials?: CredentialPlugin
  /** All keys, those that the agent uses for its part too. */
  readonly keys: PluginOptions
  /** Which paths show a secret. */
  readonly secrets: ReadonlySet<string>
}

/** Loads what `ca` names. `placeOf` says where a module that is named at a path of the configuration is looked for. */
export async function loadCAForm(
  ca: Tree | undefined,
  placeOf: (path: string) => PluginPlace,
): Promise<CAForm | { readonly findings: readonly Finding[] }> {
  if (!isTreeObject(ca))
    return refused('ca', [`${JSON.stringify(ca)} is ${kindOf(ca)}, no mapping. Write plugin under it.`])
  const plugin = await loadCAPlugin(ca['plugin'], placeOf('ca.plugin'), ca)
  if ('faults' in plugin) return refused('ca.plugin', plugin.faults)
  const needs = new Set(plugin.needs)
  if (!needs.has('credentials')) return formOf(plugin, undefined)
  const given = ca['credentials']
  const source = isTreeObject(given) ? (given['source'] ?? DEFAULT_SOURCE) : DEFAULT_SOURCE
  const path = 'ca.credentials.source'
  const credentials = await loadCredentialPlugin(source, placeOf(path), isTreeObject(given) ? given : {})
  if ('faults' in credentials) return refused(path, credentials.faults)
  return formOf(plugin, credentials)
}

const DEFAULT_SOURCE = 'token-file'

function refused(path: string, texts: readonly string[]): { readonly findings: readonly Finding[] } {
  return { findings: texts.map(text => ({ path, text })) }
}

function formOf(plugin: CAPlugin, credentials: CredentialPlugin | undefined): CAForm {
  const keys = {
    ...PLUGIN_KEY,
    ...(plugin.needs?.includes('tls') && TLS_KEYS),
    ...(credentials && credentialKeys(credentials.options)),
    ...plugin.options,
  }
  const secrets = pathsOf(keys, 'ca', option => 'secret' in option && option.secret === true)
  // Also where the source has no such key, or is not even a mapping: it may have been meant for one that has.
  return { plugin, ...(credentials && { credentials }), keys, secrets: new Set([...secrets, 'ca.credentials.token']) }
}

/** Reads the section by its form. */
export function caSchema({ plugin, credentials, keys }: CAForm): Schema<CASection> {
  const explain = (key: string): string | undefined => {
    const need = (['tls', 'credentials'] as const).find(each => NEEDED_KEYS[each].includes(key))
    return need && `unknown key. The plugin ${plugin.name} ${USES_NO[need]}. Remove it.`
  }
  return v.pipe(
    optionsSchema(keys, explain),
    v.transform(values => {
      const { rootCert, clientCertificate, tokenFile, credentials: given = {}, ...rest } = values as CommonValues
      const own = Object.entries(rest).filter(([key]) => key in plugin.options)
      const { source: _, ...options } = given
      return {
        plugin,
        options: Object.fromEntries(own),
        ...(rootCert !== undefined && { rootCert }),
        ...(clientCertificate !== undefined && { clientCertificate }),
        ...(tokenFile !== undefined && { tokenFile }),
        ...(credentials && { credentials: { plugin: credentials, options } }),
      }
    }),
  )
}

const USES_NO = { tls: 'makes no TLS connection of its own', credentials: 'uses no credentials' } as const

/** What the keys of the agent are, once the schema has let them through. */
interface CommonValues extends Pick<CASection, 'rootCert' | 'clientCertificate' | 'tokenFile'> {
  readonly credentials?: Readonly<Record<string, unknown>>
}

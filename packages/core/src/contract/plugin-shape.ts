/** Whether a value is a plugin, field by field: the agent asks when it loads a module, the conformance kit before that. */
import { CA_PLUGIN_API_VERSION } from './ca-plugin.ts'
import { CREDENTIAL_PLUGIN_API_VERSION } from './credential-plugin.ts'
import { KEY_TYPES } from './key-generator.ts'

/** A CA, or a source of credentials. */
export type PluginKind = 'ca' | 'credentials'

/** The agent's keys in the section of each kind of plugin: no option can have such a name. */
export const AGENT_OPTION_NAMES: Readonly<Record<PluginKind, readonly string[]>> = {
  ca: ['plugin', 'user', 'rootCert', 'clientCertificate', 'tls', 'tokenFile', 'credentials', 'cas'],
  credentials: ['source', 'user'],
}

/** The problems of each field of `plugin`: sentences that begin with the field. */
export function pluginFaults(kind: PluginKind, plugin: unknown): readonly string[] {
  return FORMS[kind](plugin, '')
}

/** The problems of the value at a path: sentences that begin with the path. */
type Check = (value: unknown, at: string) => readonly string[]

const REMEDY = 'See "Writing a CA plugin"'
const SHOWN_LENGTH = 40

const is =
  (fits: (value: unknown) => boolean, what: string): Check =>
  (value, at) =>
    fits(value) ? [] : [`${at} is ${value === undefined ? 'missing' : `${shown(value)}, not ${what}`}. ${REMEDY}.`]

const oneOf = (choices: readonly string[]): Check =>
  is(value => choices.some(choice => choice === value), `one of ${choices.join(', ')}`)

const optional =
  (check: Check): Check =>
  (value, at) =>
    value === undefined ? [] : check(value, at)

const listOf =
  (check: Check): Check =>
  (value, at) =>
    Array.isArray(value) ? value.flatMap((element, index) => check(element, `${at}.${index}`)) : isList(value, at)

const fieldsOf =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value, at) =>
    isRecord(value)
      ? Object.entries(checks).flatMap(([name, check]) => check(value[name], at === '' ? name : `${at}.${name}`))
      : isMapping(value, at)

const isText = is(value => typeof value === 'string', 'a text')
const isFunction = is(value => typeof value === 'function', 'a function')
const isFlag = is(value => typeof value === 'boolean', 'true or false')
const isName = is(value => typeof value === 'string' && /^[a-z][a-z0-9-]*$/.test(value), 'a name of a-z, 0-9 and -')
const isList = is(Array.isArray, 'a list')
const isMapping = is(isRecord, 'a mapping')

/** The form of a default, as the configuration file would have it. */
const DEFAULTS: Readonly<Record<string, Check>> = {
  string: isText,
  path: isText,
  duration: is(value => typeof value === 'string', 'a duration in quotes, such as "5s"'),
  number: is(value => typeof value === 'number', 'a number'),
  boolean: isFlag,
  list: listOf(isText),
  map: isMapping,
}
const OPTION_TYPES = [...Object.keys(DEFAULTS), 'object', 'objects']

const optionForm = fieldsOf({
  type: oneOf(OPTION_TYPES),
  description: isText,
  required: optional(isFlag),
  secret: optional(isFlag),
  choices: optional(listOf(isText)),
  problem: optional(isFunction),
})

const checkOption: Check = (option, at) => {
  const faults = optionForm(option, at)
  if (faults.length > 0 || !isRecord(option)) return faults
  const { type, default: fallback, options } = option
  if (type === 'object' || type === 'objects') return checkOptions([])(options, `${at}.options`)
  return optional(DEFAULTS[String(type)] ?? isText)(fallback, `${at}.default`)
}

const checkOptions =
  (taken: readonly string[]): Check =>
  (options, at) =>
    isRecord(options)
      ? Object.entries(options).flatMap(([name, option]) =>
          taken.includes(name)
            ? [`${at}.${name} is a key that Livery reserves. Rename it.`]
            : checkOption(option, `${at}.${name}`),
        )
      : isMapping(options, at)

const common = (kind: PluginKind, apiVersion: number) => ({
  apiVersion: ((value, at) =>
    value === apiVersion
      ? []
      : [
          `${at} is ${shown(value)}, and this version of Livery loads ${apiVersion}. Install a version of the plugin that fits.`,
        ]) satisfies Check,
  name: isName,
  options: checkOptions(AGENT_OPTION_NAMES[kind]),
  check: optional(isFunction),
  create: isFunction,
})

const FORMS: Readonly<Record<PluginKind, Check>> = {
  ca: fieldsOf({
    ...common('ca', CA_PLUGIN_API_VERSION),
    needs: optional(listOf(oneOf(['tls', 'credentials']))),
    capabilities: fieldsOf({
      roots: oneOf(['none', 'poll', 'push']),
      revokesMissingRoots: optional(isFlag),
      ttl: oneOf(['honoured', 'clamped', 'ignored']),
      san: oneOf(['csr', 'caller', 'config']),
      dnsNames: optional(isFlag),
      keyTypes: listOf(oneOf(KEY_TYPES)),
      bringsKey: optional(isFlag),
      asynchronous: optional(isFlag),
    }),
  }),
  credentials: fieldsOf(common('credentials', CREDENTIAL_PLUGIN_API_VERSION)),
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  const text = JSON.stringify(value) ?? String(value)
  return text.length > SHOWN_LENGTH ? `${text.slice(0, SHOWN_LENGTH)}…` : text
}

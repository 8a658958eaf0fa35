/** Reads the table of a plugin's options as the configuration needs it: a schema, defaults, and the keys that are paths or secret. */
import type { PluginOption, PluginOptions } from '@livery/core'
import * as v from 'valibot'
import { UNWRITTEN } from './config-error.ts'
import { type ConfigNode, isList, isMap, nodeOf } from './config-tree.ts'
import { Fault, faultFrom } from './fault.ts'
import { key, kindOf, list, object, record, type Schema, scalar, text } from './schema-parts.ts'
import { duration, flag, nonEmpty, oneOf, path } from './values.ts'

/**
 * The keys as they are written in, and what the plugin gets: durations in milliseconds, what is left out left out. A key
 * in `others` has that form.
 */
export function optionsSchema(
  options: PluginOptions,
  explainUnknown?: (key: string) => Fault | undefined,
  others: Readonly<Record<string, Schema<unknown>>> = {},
): Schema<Readonly<Record<string, unknown>>> {
  const entries = Object.entries(options).map(([name, option]) => {
    const value = key(option.description, others[name] ?? valueSchema(option))
    return [name, option.required ? value : v.optional(value)] as const
  })
  return object(Object.fromEntries(entries), explainUnknown)
}

/** The form of one value. */
export function valueSchema(option: PluginOption): Schema<unknown> {
  switch (option.type) {
    case 'string':
      return option.choices ? oneOf(option.choices) : textOf(option)
    case 'path':
      return path
    case 'duration':
      return duration({ min: option.min ?? '0s', max: option.max ?? '36500d' })
    case 'number':
      return numberWithin(option)
    case 'boolean':
      return flag
    case 'list':
      return list(nonEmpty)
    case 'map':
      return mapOf
    case 'object':
      return optionsSchema(option.options)
    case 'objects':
      return list(optionsSchema(option.options))
  }
}

const mapOf = record(
  nonEmpty,
  input => new Fault(`is ${kindOf(input)}, not a mapping of names to values`, 'Write one name and its value per line'),
)

function textOf({ problem, secret }: Extract<PluginOption, { type: 'string' }>): Schema<string> {
  return text(
    'text',
    input => {
      if (input === '') return new Fault('is empty', 'Write a value, or remove the line')
      const found = problem?.(input)
      if (found === undefined) return input
      const { reason, remedy } = faultFrom(secret ? found.replaceAll(input, '***') : found)
      return new Fault(reason, remedy || 'Correct it')
    },
    'Quote it',
  )
}

function numberWithin({ min, max }: { readonly min?: number; readonly max?: number }): Schema<number> {
  const bounds = [min === undefined ? '' : ` from ${min}`, max === undefined ? '' : ` to ${max}`].join('')
  return scalar(`number${bounds && `,${bounds.replace(/^ from (.*) to /, ' $1 to ')}`}`, input => {
    const fits = Number.isFinite(input) && Number(input) >= (min ?? -Infinity) && Number(input) <= (max ?? Infinity)
    return typeof input === 'number' && fits
      ? input
      : new Fault(`is not a number${bounds}`, 'Write digits only, without quotes')
  })
}

/** Changes the value of an option; `undefined` where there is none. */
export type OptionChange = (option: PluginOption, value: ConfigNode | undefined) => ConfigNode | undefined

/** `node` with what `change` makes of each option, also of those in mappings and in lists of mappings. */
export function changeOptions(options: PluginOptions, node: ConfigNode, change: OptionChange): ConfigNode {
  if (!isMap(node)) return node
  const values = new Map(node.value)
  for (const [name, option] of Object.entries(options)) {
    const value = change(option, values.get(name))
    if (value) values.set(name, changeWithin(option, value, change))
  }
  return { ...node, value: values }
}

function changeWithin(option: PluginOption, node: ConfigNode, change: OptionChange): ConfigNode {
  if (option.type === 'object') return changeOptions(option.options, node, change)
  if (option.type !== 'objects' || !isList(node)) return node
  return { ...node, value: node.value.map(item => changeOptions(option.options, item, change)) }
}

/** The default of an option that is left out. A mapping that is left out stays so. */
export const fillDefault: OptionChange = (option, value) => {
  if (value || !('default' in option) || option.default === undefined) return value
  return nodeOf(option.default, UNWRITTEN)
}

/** Marks what is secret, and what stands where a mapping with a secret belongs: it may have been meant for the secret. */
export const markSecret: OptionChange = (option, value) => {
  if (!value) return undefined
  if ('secret' in option && option.secret) return hidden(value)
  if (option.type === 'object') return isMap(value) || !hasSecret(option.options) ? value : hidden(value)
  if (option.type !== 'objects' || !hasSecret(option.options)) return value
  if (!isList(value)) return hidden(value)
  return { ...value, value: value.value.map(item => (isMap(item) ? item : hidden(item))) }
}

function hasSecret(options: PluginOptions): boolean {
  return Object.values(options).some(option =>
    option.type === 'object' || option.type === 'objects'
      ? hasSecret(option.options)
      : 'secret' in option && option.secret === true,
  )
}

function hidden(node: ConfigNode): ConfigNode {
  const secret = true as const
  if (isList(node)) return { ...node, secret, value: node.value.map(hidden) }
  if (isMap(node))
    return { ...node, secret, value: new Map([...node.value].map(([key, child]) => [key, hidden(child)])) }
  return { ...node, secret }
}

/** Turns the table of a plugin's options into schema entries, and finds the values that are secret. */
import type { PluginOption, PluginOptions } from '@livery/core/plugin'
import * as v from 'valibot'
import { type ConfigNode, isList, isMap } from './config-tree.ts'
import { Fault, faultFrom } from './fault.ts'
import { type KeyFacts, key, kindOf, list, object, record, type Schema, scalar, text } from './schema-parts.ts'
import { duration, flag, nonEmpty, oneOf, path } from './values.ts'

/**
 * Checks the keys as written, and returns the plugin's values: durations in milliseconds, missing keys left out. A key in
 * `others` has that form.
 */
export function optionsSchema(
  options: PluginOptions,
  explainUnknown?: (key: string) => Fault | undefined,
  others: Readonly<Record<string, Schema<unknown>>> = {},
): Schema<Readonly<Record<string, unknown>>> {
  const entries = Object.entries(options).map(([name, option]) => {
    const value = key(option.description, others[name] ?? valueSchema(option), defaultOf(option))
    return [name, option.required ? value : v.optional(value)] as const
  })
  return object(Object.fromEntries(entries), explainUnknown)
}

/** A missing mapping stays missing. */
function defaultOf(option: PluginOption): KeyFacts {
  return 'default' in option && option.default !== undefined ? { default: option.default } : {}
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

/**
 * Marks secret values at every depth, and any value in place of a mapping with a secret: it may have been meant as the
 * secret.
 */
export function markSecrets(options: PluginOptions, node: ConfigNode): ConfigNode {
  if (!isMap(node)) return node
  const values = new Map(node.value)
  for (const [name, option] of Object.entries(options)) {
    const value = values.get(name)
    if (value) values.set(name, markSecret(option, value))
  }
  return { ...node, value: values }
}

function markSecret(option: PluginOption, value: ConfigNode): ConfigNode {
  if ('secret' in option && option.secret) return hidden(value)
  if (option.type !== 'object' && option.type !== 'objects') return value
  const { options } = option
  if (!hasSecret(options)) return value
  const within = (part: ConfigNode) => (isMap(part) ? markSecrets(options, part) : hidden(part))
  if (option.type === 'object') return within(value)
  return isList(value) ? { ...value, value: value.value.map(within) } : hidden(value)
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

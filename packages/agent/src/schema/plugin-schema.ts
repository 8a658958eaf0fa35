/** What the table of a plugin's options is to the configuration: a schema, defaults, and which keys are paths or secret. */
import type { PluginOption, PluginOptions } from '@livery/core'
import * as v from 'valibot'
import { childPath, isTreeObject, type Tree } from './document.ts'
import { Fault, kindOf, leaf, list, object, record, type Schema, text } from './leaf.ts'
import { duration, flag, nonEmpty, oneOf, path } from './values.ts'

/**
 * The keys as they are written in, and what the plugin gets: durations in milliseconds, what is left out left out. A key
 * in `others` has that form.
 */
export function optionsSchema(
  options: PluginOptions,
  explainUnknown?: (key: string) => string | undefined,
  others: Readonly<Record<string, Schema<unknown>>> = {},
): Schema<Readonly<Record<string, unknown>>> {
  const entries = Object.entries(options).map(([name, option]) => {
    const value = others[name] ?? valueSchema(option)
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

const mapOf = record(nonEmpty, input => `is ${kindOf(input)}, no mapping of names to values.`)

function textOf({ problem, secret }: Extract<PluginOption, { type: 'string' }>): Schema<string> {
  return text(input => {
    if (input === '') return new Fault('is empty', 'Write a value, or remove the line')
    const found = problem?.(input)
    if (found === undefined) return input
    const [reason = '', ...remedy] = (secret ? found.replaceAll(input, '***') : found).split('. ')
    return new Fault(reason, remedy.join('. ') || 'Correct it')
  }, 'Quote it')
}

function numberWithin({ min, max }: { readonly min?: number; readonly max?: number }): Schema<number> {
  const bounds = [min === undefined ? '' : ` from ${min}`, max === undefined ? '' : ` to ${max}`].join('')
  return leaf(input => {
    const fits = Number.isFinite(input) && Number(input) >= (min ?? -Infinity) && Number(input) <= (max ?? Infinity)
    return typeof input === 'number' && fits
      ? input
      : new Fault(`is no number${bounds}`, 'Write digits only, without quotes')
  })
}

/** `given` with the defaults of what it leaves out; `note` hears the path of each. A mapping that is left out stays so. */
export function withOptionDefaults(
  options: PluginOptions,
  given: Tree,
  at: string,
  note: (path: string) => void,
): Tree {
  if (!isTreeObject(given)) return given
  const filled: Record<string, Tree> = Object.assign(Object.create(null), given)
  for (const [name, option] of Object.entries(options)) {
    const keyAt = childPath(at, name)
    const value = filled[name]
    if (value === undefined) {
      if (!('default' in option) || option.default === undefined) continue
      filled[name] = option.default
      note(keyAt)
    } else if (option.type === 'object') filled[name] = withOptionDefaults(option.options, value, keyAt, note)
    else if (option.type === 'objects' && Array.isArray(value)) {
      const each = (item: Tree, index: number) =>
        withOptionDefaults(option.options, item, childPath(keyAt, index), note)
      filled[name] = value.map(each)
    }
  }
  return filled
}

/** The paths of the keys that `is` picks, each element of a list written as `[]`: `ca.upstreams[].rootCert`. */
export function pathsOf(options: PluginOptions, at: string, is: (option: PluginOption) => boolean): string[] {
  return Object.entries(options).flatMap(([name, option]) => {
    const path = childPath(at, name)
    const own = is(option) ? [path] : []
    if (option.type === 'object') return [...own, ...pathsOf(option.options, path, is)]
    if (option.type === 'objects') return [...own, ...pathsOf(option.options, `${path}[]`, is)]
    return own
  })
}

/** Whether a value at `path` shows a secret: it is one, lies in one, or has one in it. All `secrets` lie under `at`. */
export function isSecretPath(secrets: ReadonlySet<string>, path: string, at = ''): boolean {
  const place = placeIn(at, path)
  return [...secrets].some(secret => isWithin(place, secret) || isWithin(secret, place))
}

/** `path` with each index as `[]`, but for those in `at`. */
export function placeIn(at: string, path: string): string {
  return path.startsWith(at) ? at + path.slice(at.length).replace(/\[\d+\]/g, '[]') : path
}

function isWithin(inner: string, outer: string): boolean {
  return inner === outer || inner.startsWith(`${outer}.`) || inner.startsWith(`${outer}[`)
}

/** The keys of an entry of `identities`. */
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { object, type Schema, text } from '../schema/schema-parts.ts'
import { checkSpiffeId, path, spiffeId } from '../schema/values.ts'
import { type OutputSetting, output } from './output-schema.ts'
import { type OwnSocket, ownSocket } from './socket-schema.ts'

/** One entry of `identities`. */
export type IdentitySetting = (
  | { readonly id: string; readonly range?: undefined }
  | { readonly range: string; readonly id?: undefined }
) & {
  readonly socket?: OwnSocket | undefined
  readonly tokenFile?: string | undefined
  readonly output?: OutputSetting | undefined
}

const identityRange = text(input => {
  const braces = input.match(/[{}]/g)?.length ?? 0
  if (braces !== 2 || !/\{\d+\.\.\d+\}/.test(input)) {
    return new Fault('has not exactly one range', 'Write one brace with two numbers, such as sa-{0..9999}')
  }
  return input
}, 'Quote it')

const ofIdentity = { output: v.optional(output), socket: v.optional(ownSocket), tokenFile: v.optional(path) }

export const identity = v.lazy(input => {
  if (typeof input === 'string')
    return v.pipe(
      text(checkSpiffeId, ''),
      v.transform(id => ({ id })),
    )
  if (isTreeObject(input) && 'range' in input) return object({ range: identityRange, ...ofIdentity })
  return object({ id: spiffeId, ...ofIdentity })
}) as Schema<IdentitySetting>

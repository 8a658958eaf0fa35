/** The keys of an entry of `identities`. */
import * as v from 'valibot'
import { isTreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { key, object, oneForm, text } from '../schema/schema-parts.ts'
import { dnsName, path, spiffeId } from '../schema/values.ts'
import { type OutputSetting, output } from './output-schema.ts'
import { type OwnSocket, ownSocket } from './socket-schema.ts'
import { type WishSetting, wishKeys } from './wish-schema.ts'

/** One entry of `identities`. */
export type IdentitySetting = WishSetting &
  ({ readonly id: string; readonly range?: undefined } | { readonly range: string; readonly id?: undefined }) & {
    readonly socket?: OwnSocket | undefined
    readonly tokenFile?: string | undefined
    readonly output?: OutputSetting | undefined
  }

const identityRange = text(
  'SPIFFE ID with one `{FIRST..LAST}`',
  input => {
    const braces = input.match(/[{}]/g)?.length ?? 0
    if (braces !== 2 || !/\{\d+\.\.\d+\}/.test(input)) {
      return new Fault('has not exactly one range', 'Write one brace with two numbers, such as sa-{0..9999}')
    }
    return input
  },
  'Quote it',
)

const ofIdentity = {
  socket: v.optional(
    key("the identity's own socket, on which `default` means it; a path has the defaults of the other keys", ownSocket),
  ),
  tokenFile: v.optional(key('its token for the CA, in place of the token of `ca`', path)),
  ...wishKeys({
    form: dnsName,
    meaning:
      'the DNS names of its certificate beside its SPIFFE ID, at most 64: for clients that check a host name. With `"*."` before it, a name stands for every host one label below',
  }),
  output: v.optional(key('its certificate in files, in place of `output` of the agent', output, { module: 'output' })),
}

const bare = v.pipe(
  spiffeId,
  v.transform(id => ({ id })),
)
const single = object({ id: key('the identity', spiffeId), ...ofIdentity })
const many = object({
  range: key(
    'in place of `id`, identities with consecutive numbers, both ends included: `spiffe://cluster.local/ns/load/sa/sa-{0..9}`',
    identityRange,
  ),
  ...ofIdentity,
})

export const identity = oneForm<IdentitySetting>([bare, single, many], input => {
  if (typeof input === 'string') return bare
  return isTreeObject(input) && 'range' in input ? many : single
})

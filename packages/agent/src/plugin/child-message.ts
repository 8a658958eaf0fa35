/** The messages that a plugin's process may send to the agent. It is not trusted: nothing else reaches the agent's methods. */
import { CA_ERROR_CODES } from '@livery/core/plugin'
import * as v from 'valibot'
import type { AgentMethods } from './messages.ts'
import { MAX_FIELD, MAX_TEXT } from './wire-error.ts'

const id = v.pipe(v.number(), v.safeInteger(), v.minValue(1))
/** A text of a log line or an error. */
const longText = v.pipe(
  v.string(),
  // A copy: a slice would keep all of the message in memory.
  v.transform(text => (text.length > MAX_TEXT ? Buffer.from(text.slice(0, MAX_TEXT)).toString() : text)),
)
/** A ticket, a name, an audience or a path, which waits in memory for an answer. */
const field = v.pipe(v.string(), v.maxLength(MAX_FIELD))

const wireError = v.object({
  name: field,
  message: longText,
  code: v.optional(v.picklist(CA_ERROR_CODES)),
  retryable: v.optional(v.boolean()),
  retryAfterMs: v.optional(v.pipe(v.number(), v.finite(), v.minValue(0))),
  local: v.optional(v.boolean()),
  deferred: v.optional(v.pipe(v.number(), v.finite())),
  option: v.optional(field),
})

const ARGUMENTS = {
  log: v.object({ level: v.picklist(['debug', 'info', 'warn', 'error']), message: longText }),
  count: v.object({ name: field, help: field, count: v.pipe(v.number(), v.finite(), v.minValue(0)) }),
  csr: id,
  store: v.object({ id, note: v.optional(field) }),
  credential: v.object({ identity: v.optional(field), audience: v.optional(field), tokenFile: v.optional(field) }),
  tls: v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
  change: v.variant('kind', [
    v.object({ kind: v.literal('certificates'), identities: v.optional(v.array(field)) }),
    v.object({ kind: v.literal('roots') }),
  ]),
} satisfies Record<keyof AgentMethods, v.GenericSchema>

const call = <M extends keyof AgentMethods>(method: M) =>
  v.object({ kind: v.literal('call'), id: v.optional(id), method: v.literal(method), argument: ARGUMENTS[method] })

const message = v.variant('kind', [
  v.variant('method', [
    call('log'),
    call('count'),
    call('csr'),
    call('store'),
    call('credential'),
    call('tls'),
    call('change'),
  ]),
  v.object({ kind: v.literal('abort'), id, reason: wireError }),
  v.object({ kind: v.literal('answer'), id, value: v.optional(v.unknown()) }),
  v.object({ kind: v.literal('error'), id, error: wireError }),
  /** The last message: the error that ends the process. */
  v.object({ kind: v.literal('crash'), error: wireError }),
])

type ChildMessage = v.InferOutput<typeof message>

/** The known fields of the message; throws an error that names the wrong one. */
export function checkChildMessage(given: unknown): ChildMessage {
  const result = v.safeParse(message, given, { abortEarly: true })
  if (result.success) return result.output
  const path = (result.issues[0].path ?? []).map(({ key }) => String(key)).join('.')
  throw new TypeError(`its ${path || 'form'} is not one that is known`)
}

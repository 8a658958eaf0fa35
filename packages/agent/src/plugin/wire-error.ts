/** Errors in the form in which they cross between processes: JSON would lose their class and code. */
import { types } from 'node:util'
import { CA_ERROR_CODES, CAError, type CAErrorCode, OptionError } from '@livery/core/plugin'

export interface WireError {
  readonly name: string
  readonly message: string
  readonly code?: CAErrorCode
  readonly retryable?: boolean
  readonly retryAfterMs?: number
  readonly local?: boolean
  readonly deferred?: number
  /** Set for an `OptionError`. */
  readonly option?: string
}

/** Characters of a text that cross: more than a scrub looks at, which ends between two words. */
export const MAX_TEXT = 20_000
/** Limit of a name, which is compared and not shown. */
export const MAX_FIELD = 4_096

/** The form of any thrown value. Never throws. A `CAError` is recognised by its name, since a plugin may define its own class. */
export function toWire(thrown: unknown): WireError {
  try {
    if (!isError(thrown)) return { name: 'Error', message: `it threw ${describe(thrown)}` }
    const { name }: Error = thrown
    const message = deniedAccess(thrown) ?? thrown.message
    const { code, retryable, retryAfterMs, local, deferred, option } = thrown as Error &
      Partial<Omit<CAError, 'name'> & OptionError>
    const plain = {
      name: clip(name, MAX_FIELD),
      message: clip(message),
      ...(typeof option === 'string' && { option: clip(option, MAX_FIELD) }),
    }
    if (name !== 'CAError' || code === undefined || !CA_ERROR_CODES.includes(code)) return plain
    return {
      ...plain,
      code,
      ...(typeof retryable === 'boolean' && { retryable }),
      ...(typeof retryAfterMs === 'number' && Number.isFinite(retryAfterMs) && { retryAfterMs }),
      ...(local === true && { local }),
      ...(typeof deferred === 'number' && Number.isFinite(deferred) && { deferred }),
    }
  } catch {
    return { name: 'Error', message: 'it threw something that cannot be read' }
  }
}

/** Never throws: the other side may have sent anything. */
export function fromWire(wire: WireError): Error {
  const {
    name,
    message: given,
    code,
    option,
    retryable,
    retryAfterMs,
    local,
    deferred,
  }: Partial<WireError> = wire ?? {}
  const message = typeof given === 'string' ? given : 'it gave an error without a message'
  if (code !== undefined && CA_ERROR_CODES.includes(code))
    return new CAError(code, message, {
      ...(typeof retryable === 'boolean' && { retryable }),
      ...(typeof retryAfterMs === 'number' && Number.isFinite(retryAfterMs) && { retryAfterMs }),
      ...(local === true && { local }),
      ...(typeof deferred === 'number' && Number.isFinite(deferred) && { deferred }),
    })
  if (name === 'TypeError' && typeof option === 'string') return new OptionError(option, message)
  return name === 'TypeError' ? new TypeError(message) : new Error(message)
}

/** The beginning of a text: the agent would otherwise copy all of it, between two answers to its callers. */
export function clip(text: unknown, maxLength = MAX_TEXT): string {
  return String(text).slice(0, maxLength)
}

/** Node's own text advises a flag that the author of a plugin cannot set. */
function deniedAccess(error: Error): string | undefined {
  const { code, permission, resource } = error as NodeJS.ErrnoException & { permission?: unknown; resource?: unknown }
  if (code !== 'ERR_ACCESS_DENIED' || typeof permission !== 'string') return undefined
  const denied = typeof resource === 'string' && resource !== '' ? `${permission} of ${resource}` : permission
  return `the process of a plugin has no permission for ${denied}`
}

/** An error of another realm is not an instance, and one made without its constructor is not a native error. */
function isError(thrown: unknown): thrown is Error {
  return thrown instanceof Error || types.isNativeError(thrown)
}

function describe(thrown: unknown): string {
  if (typeof thrown === 'string') return JSON.stringify(thrown.slice(0, 200))
  return typeof thrown === 'object' && thrown !== null ? 'an object that is not an Error' : clip(thrown)
}

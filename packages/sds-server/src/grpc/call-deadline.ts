/** The deadline that a caller gives its call: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#requests */
import { after, type Clock } from '@livery/core/plugin'
import { StreamRefusal } from '../protocol/stream-refusal.ts'

const TIMEOUT = /^(\d{1,8})([HMSmun])$/
const UNIT_MS: ReadonlyMap<string | undefined, number> = new Map([
  ['H', 3_600_000],
  ['M', 60_000],
  ['S', 1_000],
  ['m', 1],
  ['u', 1e-3],
  ['n', 1e-6],
])

interface RefusableCall {
  refuse(refusal: StreamRefusal): void
}

/** `timeout`: the header `grpc-timeout`. `call` is refused when the deadline has passed, and at once if it cannot be read. */
export function startDeadline(timeout: string, clock: Clock, call: RefusableCall): Disposable | undefined {
  const [, amount, unit] = TIMEOUT.exec(timeout) ?? []
  const unitMs = UNIT_MS.get(unit)
  if (unitMs !== undefined)
    return after(clock, Number(amount) * unitMs, () =>
      call.refuse(new StreamRefusal('deadline-exceeded', 'the deadline of the caller has passed')),
    )
  call.refuse(new StreamRefusal('invalid-argument', 'the header grpc-timeout is not a time, such as 10S'))
  return undefined
}

/** A state that events are decided on, at the times of a clock that the test advances: no CA, no key, no socket. */
import type { SecretEvent } from '../src/contract/secret-event.ts'
import { decide } from '../src/decide/decide.ts'
import type { Action, Event, Policy } from '../src/decide/step.ts'
import { nextWake } from '../src/decide/wake.ts'
import { DEFAULT_OPTIONS } from '../src/secret-manager-options.ts'
import type { SpiffeId } from '../src/spiffe/spiffe-id.ts'
import { newState, type State } from '../src/state/state.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import type { BundleReceipts } from '../src/trust/bundle-receipts.ts'

export interface BedOptions {
  readonly trustDomain: string
  readonly settleMs: number
  readonly ackWaitMs: number
}

export class TestBed {
  readonly clock = new FakeClock()
  readonly watched = new Map<SpiffeId, number>()
  readonly actions: Action[] = []
  readonly state: State
  readonly policy: Policy
  readonly receipts: BundleReceipts
  #timer: Disposable | undefined

  constructor({ trustDomain, settleMs, ackWaitMs }: BedOptions) {
    const rotation = { ...DEFAULT_OPTIONS.rotation, settleMs, ownSettleMs: settleMs, overlapMs: 0, ackWaitMs }
    this.policy = {
      ...DEFAULT_OPTIONS,
      rotation,
      revokesMissingRoots: false,
      random: () => 0.5,
      slotOf: () => 0,
      refusalOf: () => undefined,
    }
    this.state = newState({
      ...DEFAULT_OPTIONS,
      watched: this.watched,
      trustDomain,
      pending: new Set(),
      stored: undefined,
      clearStoreAt: Number.POSITIVE_INFINITY,
      rotation,
      dispatch: event => this.dispatch(event),
    })
    this.receipts = this.state.receipts
  }

  get reports(): readonly { readonly name: string; readonly event: SecretEvent }[] {
    return this.actions.filter(action => action.kind === 'report')
  }

  dispatch(event: Event): void {
    const { clock, state, policy } = this
    this.actions.push(...decide(state, event, clock.now(), policy))
    this.#timer?.[Symbol.dispose]()
    const at = nextWake(state, clock.now())
    if (at < Number.POSITIVE_INFINITY) this.#timer = clock.at(at, () => this.dispatch({ kind: 'woke' }))
  }
}

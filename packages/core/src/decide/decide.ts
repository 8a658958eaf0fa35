/** The one place of decision: what follows from an event. It starts no timer, waits for nothing and calls nobody back; it asks `policy` for chance and for verdicts. */

import { NO_WISH, wishText } from '../contract/certificate-wish.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Identity, Request } from '../state/identity.ts'
import type { State } from '../state/state.ts'
import { ask, drop, dropAll, pin, remove, unwatched, watched } from './admission.ts'
import { acknowledged, changeRoot, sent, streamClosed } from './announcement.ts'
import { answered, restored } from './answer.ts'
import { clockJumped, rootsAsked } from './clock-jump.ts'
import type { Action, Event } from './event.ts'
import { caChanged, renewNow, retryNow } from './hurry.ts'
import { retryFailing } from './outage.ts'
import { isCurrent } from './plan.ts'
import { failed } from './retry.ts'
import { configureRoots, learn, restoreRoots, useCrls } from './roots.ts'
import { serveAgain } from './serving.ts'
import { startNext } from './start.ts'
import type { Policy, Turn } from './turn.ts'
import { woke } from './wake.ts'
import { followWish } from './wish.ts'

/** Changes `state` as `event` requires at `now` (milliseconds since the epoch), and gives what is to be done, in order. */
export function decide(state: State, event: Event, now: number, policy: Policy): readonly Action[] {
  const turn: Turn = { state, policy, now, actions: [] }
  consider(turn, event)
  if (!state.isClosed) startNext(turn)
  return turn.actions
}

function consider(turn: Turn, event: Event): void {
  const { state } = turn
  switch (event.kind) {
    case 'added':
      pin(turn, event.id, event.tokenFile, event.wish ?? NO_WISH)
      break
    case 'removed':
      remove(turn, event.id)
      break
    case 'dropped':
      drop(turn, event.id)
      break
    case 'watched':
      watched(turn, event.id)
      break
    case 'unwatched':
      unwatched(turn, event.id)
      break
    case 'asked':
      ask(turn, event.id)
      break
    case 'answered':
      ended(turn, event.request, () => answered(turn, event.request, event.answer, event.waitedMs))
      break
    case 'failed':
      ended(turn, event.request, () => failed(turn, event.request, event.failure, event.waitedMs))
      break
    case 'restored':
      restored(turn, event.identity, event.from, event.found)
      break
    case 'caChanged':
      caChanged(turn, event.change)
      break
    case 'rootsRestored':
      restoreRoots(turn, event.roots, event.read)
      break
    case 'rootsListed':
      learn(turn, state.trustDomain, event.read, { kind: 'list' })
      break
    case 'rootsConfigured':
      configureRoots(turn, event.trustDomain, event.roots)
      break
    case 'crlsRead':
      useCrls(turn, event.trustDomain, event.crls, event.source)
      break
    case 'rootChanged':
      changeRoot(turn, event.bundle, event.fingerprint, event.action)
      break
    case 'sent':
      sent(turn, event.receipt, event.bundle)
      break
    case 'acknowledged':
      acknowledged(turn, event.receipt)
      break
    case 'streamClosed':
      streamClosed(turn, event.receipt)
      break
    case 'clockJumped':
      clockJumped(turn, event.jump)
      break
    case 'rootsAsked':
      rootsAsked(turn, event.jump)
      break
    case 'woke':
      woke(turn)
      break
    case 'closed':
      dropAll(turn)
      break
    case 'retryAsked':
      if (event.id === undefined) retryFailing(turn)
      else forHeld(turn, event.id, retryNow)
      break
    case 'renewalAsked':
      forHeld(turn, event.id, renewNow)
      break
    case 'readerRefused':
      forHeld(turn, event.id, serveAgain)
      break
  }
}

/** The wish may have changed while the request was under way. */
function ended(turn: Turn, request: Request, conclude: () => void): void {
  const wasCurrent = isCurrent(request)
  turn.state.queue.end(request.urgency)
  conclude()
  if (wasCurrent) followWish(turn, request.of, wishText(request.wish))
}

function forHeld(turn: Turn, id: SpiffeId, act: (turn: Turn, identity: Identity) => void): void {
  const identity = turn.state.identities.get(id)
  if (identity) act(turn, identity)
}

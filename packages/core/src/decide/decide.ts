/** The one place of decision: turns an event into actions. It starts no timer, waits for nothing and calls nobody back; `policy` supplies chance and verdicts. */

import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Identity } from '../state/identity.ts'
import type { State } from '../state/state.ts'
import { ask, drop, dropAll, pin, remove, unwatched, watched } from './admission.ts'
import { acknowledged, changeRoot, sent, streamClosed } from './announcement.ts'
import { answered } from './answer.ts'
import { clockJumped, rootsAsked } from './clock-jump.ts'
import { caChanged, renewNow, retryNow } from './hurry.ts'
import { retryFailing } from './outage.ts'
import { startNext } from './plan.ts'
import { restored } from './restored.ts'
import { configureRoots, learn, restoreRoots, useCrls } from './roots.ts'
import { serveAgain } from './serving.ts'
import type { Action, Event, Policy, Step } from './step.ts'
import { woke } from './wake.ts'

/** Changes `state` as `event` requires at `now` (milliseconds since the epoch), and returns the actions to perform, in order. */
export function decide(state: State, event: Event, now: number, policy: Policy): readonly Action[] {
  const step: Step = { state, policy, now, actions: [] }
  consider(step, event)
  if (!state.isClosed) startNext(step)
  return step.actions
}

function consider(step: Step, event: Event): void {
  const { state } = step
  switch (event.kind) {
    case 'added':
      pin(step, event.id, event.tokenFile, event.wish)
      break
    case 'removed':
      forKnown(step, event.id, remove)
      break
    case 'dropped':
      forKnown(step, event.id, drop)
      break
    case 'watched':
      forKnown(step, event.id, watched)
      break
    case 'unwatched':
      unwatched(step, event.id)
      break
    case 'asked':
      ask(step, event.id)
      break
    case 'answered':
      answered(step, event.request, event.answer, event.waitedMs)
      break
    case 'restored':
      restored(step, event.identity, event.from, event.found)
      break
    case 'caChanged':
      caChanged(step, event.change)
      break
    case 'rootsRestored':
      restoreRoots(step, event.roots, event.read)
      break
    case 'rootsListed':
      learn(step, state.trustDomain, event.read, { kind: 'list' })
      break
    case 'rootsConfigured':
      configureRoots(step, event.trustDomain, event.roots)
      break
    case 'crlsRead':
      useCrls(step, event.trustDomain, event.crls, event.source)
      break
    case 'rootChanged':
      changeRoot(step, event.bundle, event.fingerprint, event.action)
      break
    case 'sent':
      sent(step, event.receipt, event.bundle)
      break
    case 'acknowledged':
      acknowledged(step, event.receipt)
      break
    case 'streamClosed':
      streamClosed(step, event.receipt)
      break
    case 'clockJumped':
      clockJumped(step, event.jump)
      break
    case 'rootsAsked':
      rootsAsked(step, event.jump)
      break
    case 'woke':
      woke(step)
      break
    case 'closed':
      dropAll(step)
      break
    case 'retryAsked':
      if (event.id === undefined) retryFailing(step)
      else forKnown(step, event.id, retryNow)
      break
    case 'renewalAsked':
      forKnown(step, event.id, renewNow)
      break
    case 'readerRefused':
      forKnown(step, event.id, serveAgain)
      break
  }
}

function forKnown(step: Step, id: SpiffeId, act: (step: Step, identity: Identity) => void): void {
  const identity = step.state.identities.get(id)
  if (identity) act(step, identity)
}

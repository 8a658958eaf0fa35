/** The parts of a SecretManager, put together: the state, who feeds it, and the engine that acts on it. */

import type { SecretEvent } from './contract/secret-event.ts'
import type { StoredRoot } from './contract/trust-anchor.ts'
import { slotOf } from './decide/renewal-time.ts'
import type { Event } from './decide/step.ts'
import { Engine } from './engine.ts'
import { PreflightVerdicts } from './preflight-verdicts.ts'
import { RootFeeds } from './root-feeds.ts'
import { type SecretManagerOptions, withDefaults } from './secret-manager-options.ts'
import type { Subscribers } from './secrets/watch.ts'
import type { SpiffeId } from './spiffe/spiffe-id.ts'
import { newState } from './state/state.ts'
import { BundleListeners } from './trust/bundle-listeners.ts'
import { RootReader } from './trust/root-reader.ts'

export interface SecretManagerParts {
  readonly engine: Engine
  readonly listeners: BundleListeners
  readonly feeds: RootFeeds
  /** Ends all of them but the engine. */
  readonly ends: DisposableStack
}

/** Takes up the stored roots and the operator's roots, and asks the CA. */
export function assemble(
  options: SecretManagerOptions,
  report: (name: string, event: SecretEvent) => void,
): SecretManagerParts {
  const { fetching, rotation, retry, random, rootsPollMs, ttlSeconds, concurrency, ...retention } =
    withDefaults(options)
  const { clock, timeoutMs, pending, verifier } = fetching
  const { ca, store, trustDomain } = options
  const dispatch = (event: Event) => engine.dispatch(event)
  store?.failures.subscribe(({ name, failure }) => report(name, failure))
  const subscribers: Subscribers<SpiffeId> = new Map()
  // Configured identities are kept by then, and on-demand identities in use were requested.
  const clearStoreAt = store
    ? clock.now() + Math.max(retention.removalGraceMs, retention.idle.afterMs)
    : Number.POSITIVE_INFINITY
  const scheduling = { ttlSeconds, concurrency, idle: retention.idle, rotation }
  const kept = { watched: subscribers, pending, stored: store, clearStoreAt }
  const state = newState({ trustDomain, ...scheduling, ...kept, dispatch })
  const { bundles } = state
  const reader = new RootReader(verifier)
  const polling = { pollMs: rootsPollMs, timeoutMs, retry, random }
  const feeds = new RootFeeds({ ca, clock, reader, trustDomain, ...polling, record: report, dispatch })
  const listeners = new BundleListeners(bundles)
  // Nodes with the same identities renew them at different times.
  const slotOffset = random()
  const preflight = new PreflightVerdicts(verifier, bundles)
  const engine = new Engine({
    state,
    policy: {
      ...retention,
      rotation,
      revokesMissingRoots: options.revokesMissingRoots ?? false,
      retry,
      random,
      slotOf: id => (slotOf(id) + slotOffset) % 1,
      refusalOf: (issued, id, now) => preflight.refusalOf(issued, id, now),
    },
    fetching: { ...fetching, reader, bundles, rootList: feeds.caList },
    listeners,
    store,
    subscribers,
    report,
  })
  feeds.crls.use(options.crlSources ?? [])
  // This CA has no list that could ever give up a root that another CA had listed.
  const roots = store && (ca.trustBundle ? store.roots : store.roots.map(withoutList))
  if (roots) dispatch({ kind: 'rootsRestored', roots, read: pem => reader.readOne(pem) })
  feeds.start(options.rootSources ?? [])
  const ends = new DisposableStack()
  ends.use(listeners)
  ends.use(feeds)
  ends.use(clock.onJump?.(jump => dispatch({ kind: 'clockJumped', jump })))
  ends.use(ca.subscribe?.(change => dispatch({ kind: 'caChanged', change })))
  return { engine, listeners, feeds, ends }
}

function withoutList(root: StoredRoot): StoredRoot {
  return root.standing === 'listed' ? { ...root, standing: 'inferred' } : root
}

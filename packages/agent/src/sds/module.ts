/** The module `sds`: the sockets, the callers on them, and their changes at a reload. */
import { Events, type SecretManager } from '@livery/core'
import { untilAborted } from '@livery/core/plugin'
import { acceptWaiting, readPeerCredentials } from '@livery/native-keygen'
import {
  type CallerDirectory,
  createSdsServer,
  type SdsEvent,
  type SdsServer,
  SdsServerError,
  type SocketConfig,
} from '@livery/sds-server'
import type { Basis } from '../life/basis.ts'
import { socketMetrics } from '../observe/sds-metrics.ts'
import type { EventRecorder } from '../secrets/event-recorder.ts'
import type { IdentityUnion } from '../secrets/identity-union.ts'
import type { RootSources } from '../trust/root-sources.ts'
import { LiveConfig } from './live-config.ts'
import { sdsSockets, serverOptions, shareOnDemand, warnOfOpenSockets } from './sds-sockets.ts'

interface Needs extends Basis {
  readonly secrets: SecretManager
  readonly recorder: EventRecorder
  readonly union: IdentityUnion
  readonly rootSources: RootSources
  readonly pods?: Pods | undefined
  readonly predecessor?: { readonly refused: AbortSignal } | undefined
}

/** The pods of this node, where they are known. */
interface Pods {
  readonly callers: CallerDirectory | undefined
  follow(parts: { readonly union: IdentityUnion; readonly secrets: SecretManager; readonly sds: SdsServer }): Disposable
  /** Resolves when their identities are held. */
  listed(): Promise<void>
}

export const sds = {
  async open(made: Needs) {
    const { config, reloads, life, scopes, metrics, secrets, union, rootSources, pods, predecessor } = made
    const stop = AbortSignal.any([made.stop, predecessor?.refused].filter(each => each !== undefined))
    // The previous agent serves until then.
    if (predecessor) await untilAborted(secrets.restored(), stop)
    const sockets = sdsSockets(config, shareOnDemand(config))
    const sds = life.parts.use(await openServer(made, sockets, stop))
    life.bound.resolve()
    metrics.add(socketMetrics(sds))
    const live = new LiveConfig(config, {
      union,
      reloads,
      sds,
      useRoots: async next => {
        secrets.useCrlSources(await rootSources.crls(next))
        await secrets.useRootSources(await rootSources.of(next))
        sds.review()
      },
      onServe: opened => warnOfOpenSockets(opened, scopes.of('sds')),
      onError: (err, path) => scopes.of('config').error({ err }, `socket ${path} did not follow the configuration`),
    })
    secrets.events.subscribe(({ name, event }) => {
      if (event.kind === 'withdrawn' && event.reason !== 'expired') live.onForgotten(name)
    })
    if (pods) life.parts.use(pods.follow({ union, secrets, sds }))
    if (predecessor) await untilAborted(pods?.listed() ?? Promise.resolve(), stop)
    return { sds, sockets, live }
  },
}

async function openServer(
  { config, clock, secrets, recorder, pods }: Needs,
  sockets: readonly SocketConfig[],
  signal: AbortSignal,
): Promise<SdsServer> {
  const events = new Events<SdsEvent>()
  events.subscribe(event => recorder.sds(event))
  return await createSdsServer({
    sockets,
    source: secrets,
    clock,
    ...(readPeerCredentials && { readPeerCredentials }),
    callerDirectory: pods?.callers,
    ...(acceptWaiting && { acceptWaiting }),
    ...serverOptions(config),
    signal,
    events,
  }).catch((error: unknown) => {
    if (!(error instanceof SdsServerError) || error.code !== 'live-owner') throw error
    const takeover =
      'If that program is another livery, start this one with "livery run --takeover", then stop the old one.'
    throw new Error(`${error.message}. ${takeover}`, { cause: error })
  })
}

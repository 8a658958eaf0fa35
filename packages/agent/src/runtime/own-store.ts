/** Makes the agent the owner of its store, from which a successor takes over. */
import type { Clock, FileStore } from '@livery/core'
import type { Config } from '../config/load.ts'
import type { Logger } from '../observe/logger.ts'
import { StoreOwner } from '../takeover/store-owner.ts'
import type { Lifecycle } from './lifecycle.ts'

interface OwnStoreParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly lifecycle: Lifecycle
  readonly isSuccessor: boolean
  /** The process stays when another has taken over, until it gets a signal. */
  readonly isKeptRunning: boolean
}

/** Resolves with `undefined` without a store. Rejects with an `Error` if another agent owns it. */
export async function ownStore(
  store: FileStore | undefined,
  config: Config,
  { clock, logger, lifecycle, isSuccessor, isKeptRunning }: OwnStoreParts,
): Promise<StoreOwner | undefined> {
  if (!store || !config.store) return undefined
  return await StoreOwner.listen({
    directory: config.store.directory,
    isSuccessor,
    clock,
    logger,
    isServing: () => lifecycle.phase === 'serving',
    releaseStore: async () => {
      lifecycle.serving?.sds.endTakeover()
      lifecycle.serving?.outputs.release()
      await store.release()
    },
    reclaimSockets: () => lifecycle.takeBack(),
    reclaim: () => {
      store.reclaim()
      lifecycle.serving?.outputs.reclaim()
    },
    onSucceeded: () => {
      logger.info('another agent serves now: draining')
      void lifecycle.handOver(clock).finally(() => {
        if (!lifecycle.hasLeft) return
        if (isKeptRunning) logger.info('drained: this process stays until it is stopped')
        else lifecycle.succession.resolve('succeeded')
      })
    },
    stay: () => lifecycle.stay(),
    onSuccessorGone: () => lifecycle.succession.resolve('successor-gone'),
  })
}

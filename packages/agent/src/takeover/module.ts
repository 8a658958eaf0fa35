/** The module `takeover`: this agent takes over from another one on the same store, and hands over to its successor. */
import type { Config } from '../config/load.ts'
import type { Basis, Module } from '../life/module.ts'
import { AgentHandover } from './agent-handover.ts'
import { Predecessor } from './predecessor.ts'
import { StoreOwner } from './store-owner.ts'

interface Needs extends Basis {
  /** The process stays when another has taken over, until it gets a signal. */
  readonly staysWhenSucceeded: boolean
}

interface Gives {
  /** The agent that this one takes over from, if there is one. */
  readonly predecessor?: Predecessor
  readonly ownStore?: (directory: string) => Promise<void>
}

export const takeover: Module<Needs, Gives> = {
  async open({ config, life, clock, scopes, staysWhenSucceeded }) {
    const logger = scopes.of('takeover')
    const predecessor = await findPredecessor(config)
    if (predecessor) {
      logger.info(`taking over from the agent that owns ${config.store?.directory}`)
      life.parts.use(predecessor)
      await predecessor.ask('store')
    }
    return {
      ...(predecessor && { predecessor }),
      async ownStore(directory) {
        predecessor?.refused.throwIfAborted()
        const handover = new AgentHandover({ life, clock, logger, staysWhenSucceeded })
        const isSuccessor = predecessor !== undefined
        life.parts.use(await StoreOwner.listen({ directory, isSuccessor, handover, clock, logger }))
      },
    }
  },
}

/** The agent that owns the store, if this one is to take over from it. */
async function findPredecessor({ sds, store }: Config): Promise<Predecessor | undefined> {
  return sds.takeover && store ? await Predecessor.find(store.directory) : undefined
}

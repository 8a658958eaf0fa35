/** The module `takeover`: takes over from another agent on the same store, and hands over to a successor. Only it keeps two agents off one store. */
import type { Basis } from '../life/basis.ts'
import { AgentHandover } from './agent-handover.ts'
import { Predecessor } from './predecessor.ts'
import { StoreOwner } from './store-owner.ts'

export const takeover = {
  name: 'takeover',
  async open({ config: { sds, store }, life, clock, scopes, staysWhenSucceeded }: Basis) {
    const logger = scopes.of('takeover')
    const predecessor = sds.takeover && store ? await Predecessor.find(store.directory) : undefined
    if (predecessor) {
      logger.info(`taking over from the agent that owns ${store?.directory}`)
      life.parts.use(predecessor)
      await predecessor.ask('store')
    }
    const ownStore = async (directory: string): Promise<void> => {
      predecessor?.refused.throwIfAborted()
      const handover = new AgentHandover({ life, clock, logger, staysWhenSucceeded })
      const isSuccessor = predecessor !== undefined
      life.parts.use(await StoreOwner.listen({ directory, isSuccessor, handover, clock, logger }))
    }
    return { predecessor, ownStore }
  },
}

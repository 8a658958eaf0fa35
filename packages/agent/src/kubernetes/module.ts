/** The module `pods`: the pods of this node, their identities and their tokens. */
import type { Basis, Module } from '../life/module.ts'
import type { FollowedPods } from './followed-pods.ts'

export const pods: Module<Basis, { readonly pods?: FollowedPods }> = {
  async open(basis) {
    const { kubernetes } = basis.config
    if (!kubernetes) return {}
    // Most agents know no pods: they load no client of the API server.
    const { FollowedPods } = await import('./followed-pods.ts')
    const followed = basis.life.parts.use(new FollowedPods(kubernetes, basis))
    basis.life.own({ leave: () => followed[Symbol.asyncDispose]() })
    return { pods: followed }
  },
}

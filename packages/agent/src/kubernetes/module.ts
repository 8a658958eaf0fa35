/** The module `pods`: the pods of this node, their identities and their tokens. */
import type { Basis } from '../life/basis.ts'

export const pods = {
  name: 'pods',
  async open(basis: Basis) {
    const { kubernetes } = basis.config
    if (!kubernetes) return { pods: undefined }
    // Most agents know no pods: they load no client of the API server.
    const { FollowedPods } = await import('./followed-pods.ts')
    const pods = basis.life.parts.use(new FollowedPods(kubernetes, basis))
    basis.life.own({ leave: () => pods[Symbol.asyncDispose]() })
    return { pods }
  },
}

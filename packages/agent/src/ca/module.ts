/** The module `ca`: the client of the CA that the configuration names. */
import type { WorkloadTokens } from '@livery/core'
import type { Basis } from '../life/module.ts'
import type { ConfigNode } from '../schema/config-tree.ts'
import { createCAClient } from './create-ca-client.ts'

interface Needs extends Basis {
  /** The configuration as it is written. */
  readonly root: ConfigNode
  readonly pods?: { readonly tokens: WorkloadTokens } | undefined
}

export const ca = {
  async open({ config, root, life, clock, scopes, metrics, vault, pods }: Needs) {
    const parts = {
      clock,
      logger: scopes.of('plugin'),
      counters: metrics.plugins,
      vault,
      workloadTokens: pods?.tokens,
      rootsPollMs: config.trust.poll,
    }
    return { ca: await createCAClient({ config, root }, parts, life.parts) }
  },
}

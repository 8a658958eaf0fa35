/** The module `ca`: the client of the CA that the configuration names. */
import type { WorkloadTokens } from '@livery/core/plugin'
import type { Basis } from '../life/basis.ts'
import { createCAClient } from './create-ca-client.ts'

interface Needs extends Basis {
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
      connected: (group: string) => metrics.connected(group),
    }
    return { ca: await createCAClient({ config, root }, parts, life.parts) }
  },
}

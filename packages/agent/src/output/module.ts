/** The module `output`: certificates in files, for programs that use no socket. */
import type { SecretManager } from '@livery/core'
import type { Basis } from '../life/basis.ts'
import { Outputs } from './outputs.ts'

export const output = {
  name: 'output',
  open({ config, reloads, life, secrets, clock, scopes, metrics }: Basis & { readonly secrets: SecretManager }) {
    const outputs = life.parts.use(new Outputs({ secrets, clock, logger: scopes.of('output') }))
    outputs.follow(config.identities)
    reloads.subscribe(({ identities }) => outputs.follow(identities))
    life.own(outputs)
    metrics.add([
      {
        name: 'livery_output_failures_total',
        help: 'Failures to write a set of files, or to have a program read it. Both are tried again: see the log.',
        read: () => outputs.counts.failures,
      },
    ])
  },
}

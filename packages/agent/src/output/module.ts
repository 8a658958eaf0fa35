/** The module `output`: certificates in files, for programs that do not ask over a socket. */
import type { SecretManager } from '@livery/core'
import type { Basis, Module } from '../life/module.ts'
import { outputMetrics } from '../observe/output-metrics.ts'
import { Outputs } from './outputs.ts'

interface Needs extends Basis {
  readonly secrets: SecretManager
}

export const output: Module<Needs, object> = {
  open({ config, reloads, life, secrets, clock, scopes, metrics }) {
    const outputs = life.parts.use(new Outputs({ secrets, clock, logger: scopes.of('output') }))
    outputs.follow(config.identities)
    reloads.subscribe(({ identities }) => outputs.follow(identities))
    life.own(outputs)
    metrics.add(outputMetrics(outputs))
    return {}
  },
}

/** The suite lets through what is right, however unusual. */
import { test } from 'node:test'
import { REFERENCE_CAPABILITIES } from '../../test/reference-plugin.ts'
import { unusualPlugins } from '../../test/unusual-plugins.ts'
import { suite } from './suite.ts'

/** The cases that distinguish these plugins; the others run with LIVERY_SLOW. */
const QUICK = /^(contract|names|ttl|errors|answers|parallel: requests|roots|tickets|close)/
const isSlow = process.env['LIVERY_SLOW'] === '1'

for (const { that, client: Client, claims = {} } of unusualPlugins)
  test(`a plugin that ${that} passes`, async () => {
    const cases: (() => Promise<void>)[] = []
    suite({
      test: (name, run) => void ((isSlow || QUICK.test(name)) && cases.push(run)),
      create: ({ ca, context }) => new Client(ca, context),
      capabilities: { ...REFERENCE_CAPABILITIES, ...claims },
      timeoutMs: 60_000,
    })
    for (const run of cases) await run()
  })

/** The SecretManager over the embedded CA: an answer from the cache, and the first fill of 1, 100 and 1,000 identities. */
import { CertificateAuthority, EmbeddedClient } from '@livery/ca-plugins/embedded'
import { SecretManager, type SecretName } from '@livery/core'
import { type SpiffeId, SystemClock } from '@livery/core/plugin'
import { createKeyGenerator } from '@livery/native-keygen'
import { Bench } from 'tinybench'
import { type Figure, figure } from './report.ts'

const signal = new AbortController().signal

export async function measureSecretManager(sizes: readonly number[], rounds: number): Promise<Figure[]> {
  using clock = new SystemClock()
  const authority = await CertificateAuthority.open({ trustDomain: 'cluster.local', clock })
  const fill = async (size: number) => {
    const manager = new SecretManager({
      ca: new EmbeddedClient(authority),
      keyGenerator: createKeyGenerator().generator,
      clock,
      trustDomain: 'cluster.local',
    })
    const names = Array.from({ length: size }, (_, index): SecretName & { readonly identity: SpiffeId } => ({
      kind: 'identity',
      identity: `spiffe://cluster.local/ns/load/sa/sa-${index}`,
    }))
    for (const { identity } of names) manager.add(identity)
    await Promise.all(names.map(name => manager.get(name, { signal })))
    return { manager, names }
  }

  const figures: Figure[] = []
  for (const size of sizes) {
    const samples: number[] = []
    for (let round = 0; round < rounds; round++) {
      const start = performance.now()
      const { manager } = await fill(size)
      samples.push(performance.now() - start)
      await manager[Symbol.asyncDispose]()
    }
    const how = `${size.toLocaleString('en-US')} identities, CA in the process`
    figures.push(figure('SecretManager, first fill', how, 'ms', samples))
  }

  const { manager, names } = await fill(sizes.at(-1) ?? 1)
  const bench = new Bench({ time: 300, throws: true })
  let next = 0
  bench.add('current', () => void manager.current(names[next++ % names.length] ?? { kind: 'bundle', trustDomain: '' }))
  bench.add('get', async () => {
    await manager.get(names[next++ % names.length] ?? { kind: 'bundle', trustDomain: '' }, { signal })
  })
  await bench.run()
  for (const task of bench.tasks) {
    if (task.result.state !== 'completed') throw new Error(`${task.name} did not complete`)
    const { min, p50, p75, samplesCount } = task.result.latency
    const how = `${task.name}(), ${names.length.toLocaleString('en-US')} identities held`
    const us = { median: p50 * 1_000, p25: min * 1_000, p75: p75 * 1_000 }
    figures.push({ work: 'SecretManager, hit', how, unit: 'µs', samples: samplesCount, ...us })
  }
  await manager[Symbol.asyncDispose]()
  return figures
}

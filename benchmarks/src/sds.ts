/** SDS over a real socket: the first answer to 1, 100 and 1,000 streams, and a renewed secret pushed to all of them. */
import { fork } from 'node:child_process'
import { on, once } from 'node:events'
import { join } from 'node:path'
import { CertificateAuthority, EmbeddedClient } from '@livery/ca-plugins/embedded'
import { SecretManager } from '@livery/core'
import { SystemClock } from '@livery/core/plugin'
import { createKeyGenerator } from '@livery/native-keygen'
import { createSdsServer } from '@livery/sds-server'
import { TemporaryFolder } from '@livery/test-support'
import { PromptedClient } from './prompted-client.ts'
import { type Figure, figure } from './report.ts'
import type { ClientOrder, ClientReport } from './sds-client.ts'

const identity = 'spiffe://cluster.local/ns/default/sa/bench'
const WARMUP_PUSHES = 2

export async function measureSds(sizes: readonly number[], pushes: number): Promise<Figure[]> {
  using folder = new TemporaryFolder()
  const socket = join(folder.path, 'sds.sock')
  using clock = new SystemClock()
  const authority = await CertificateAuthority.open({ trustDomain: 'cluster.local', clock })
  const ca = new PromptedClient(
    new EmbeddedClient(authority),
    authority.roots().map(({ pem }) => pem),
  )
  let issuedAt = 0n
  await using manager = new SecretManager({
    ca,
    keyGenerator: createKeyGenerator().generator,
    clock,
    trustDomain: 'cluster.local',
  })
  manager.events.subscribe(({ event }) => {
    if (event.kind === 'issued') issuedAt = process.hrtime.bigint()
  })
  manager.add(identity)
  await manager.get({ kind: 'identity', identity }, { signal: new AbortController().signal })
  await using _server = await createSdsServer({
    // The fleet has one uid, and asks faster than a caller may by default.
    sockets: [{ path: socket, identity, limits: { perCaller: { requestsPerSecond: 1_000_000, bytes: 2 ** 30 } } }],
    source: manager,
    clock,
    drainMs: 0,
  })

  const figures: Figure[] = []
  for (const streams of sizes) {
    const client = fork(new URL('sds-client.ts', import.meta.url), { execArgv: process.execArgv })
    const reports: AsyncIterator<unknown[]> = on(client, 'message', { close: ['exit'] })
    client.send({ socket, name: identity, streams } satisfies ClientOrder)
    const answered = await next(reports, 'answered')
    const how = `${streams.toLocaleString('en-US')} streams, each on its own connection`
    const ms = [Number(BigInt(answered.at) - BigInt(answered.startedAt)) / 1e6]
    figures.push(figure('SDS, connect to the last first answer', how, 'ms', ms))

    const last: number[] = []
    const cpu: number[] = []
    for (let push = 0; push < pushes + WARMUP_PUSHES; push++) {
      const before = process.cpuUsage()
      ca.renew([identity])
      const { at } = await next(reports, 'pushed')
      const used = process.cpuUsage(before)
      if (push < WARMUP_PUSHES) continue
      last.push(Number(BigInt(at) - issuedAt) / 1e6)
      cpu.push((used.user + used.system) / streams)
    }
    figures.push(figure('SDS, push of a renewed secret to the last stream', how, 'ms', last))
    figures.push(figure('SDS, server CPU per push (renewal included)', how, 'µs', cpu))
    client.kill()
    await once(client, 'exit')
  }
  return figures
}

async function next<K extends ClientReport['kind']>(
  reports: AsyncIterator<unknown[]>,
  kind: K,
): Promise<Extract<ClientReport, { kind: K }>> {
  const { value, done } = await reports.next()
  if (done) throw new Error(`the client ended before it reported ${kind}`)
  const [report] = value as [ClientReport]
  if (report.kind !== kind) throw new Error(`the client reported ${report.kind} where ${kind} was due`)
  return report as Extract<ClientReport, { kind: K }>
}

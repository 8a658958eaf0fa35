/** What each CA plugin shows with real Envoys: both certificates rotate under traffic, and no request fails. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { makeFolder, Pair, type Process, startAgent, Traffic, until } from './envoy-bench.ts'

export const WEB = 'spiffe://cluster.local/ns/default/sa/web'
export const API = 'spiffe://cluster.local/ns/default/sa/api'

export interface RotationOptions {
  /** What the plugin needs in the folder of the configuration, and the section `ca` that goes with it. */
  readonly ca: (folder: string) => Promise<object>
  /** Keys beside `ca`, `identities` and `trustDomain`; default: a `ttl` of 8 seconds. */
  readonly settings?: object
  /** By identity, in the folder of the configuration. */
  readonly tokenFiles?: Readonly<Record<string, string>>
  /** What happens between the second certificate of each and the third. */
  readonly between?: (agent: Process & { readonly adminPort: number }, folder: string) => Promise<void>
}

/** The agent as a process, and the two Envoys of deploy/envoy. Resolves once each has shown three certificates. */
export async function rotateUnderTraffic(options: RotationOptions): Promise<void> {
  await using folder = await makeFolder()
  const identity = (id: string, socket: string) => {
    const tokenFile = options.tokenFiles?.[id]
    return { id, socket, ...(tokenFile !== undefined && { tokenFile }) }
  }
  await using agent = await startAgent(folder.path, {
    trustDomain: 'cluster.local',
    ca: await options.ca(folder.path),
    identities: [identity(WEB, 'run/web.sock'), identity(API, 'run/api.sock')],
    ...(options.settings ?? { ttl: '8s' }),
  })
  const socket = (name: string) => join(folder.path, 'run', `${name}.sock`)
  await using pair = await Pair.start(folder.path, { web: socket('web'), api: socket('api') })
  await pair.live()
  await using traffic = new Traffic(pair.port)
  const apiSerials = new Set<string>()
  const shown = (count: number) =>
    until(
      `api and web have each shown ${count} certificates`,
      async () => {
        for (const { serial } of await pair.api.certificates()) apiSerials.add(serial)
        return (traffic.serials.size >= count && apiSerials.size >= count) || undefined
      },
      60_000,
    )
  await shown(2)
  await options.between?.(agent, folder.path)
  await shown(3)
  await traffic.stop()
  assert.deepEqual(traffic.failures, [])
  assert.ok(traffic.requests > 100, `only ${traffic.requests} requests`)
  assert.doesNotMatch(agent.output, /PRIVATE KEY/)
}

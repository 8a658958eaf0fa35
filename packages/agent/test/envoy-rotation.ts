/** Each CA plugin with real Envoys: both certificates rotate under traffic, and no request fails. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { TemporaryFolder } from '@livery/test-support'
import { Pair, type Process, startAgent, Traffic, until } from './envoy-bench.ts'

export const WEB = 'spiffe://cluster.local/ns/default/sa/web'
export const API = 'spiffe://cluster.local/ns/default/sa/api'

interface RotationOptions {
  /** Writes the plugin's files to the folder of the configuration, and returns the section `ca` for them. */
  readonly ca: (folder: string) => Promise<object>
  /** Keys beside `ca`, `identities` and `trustDomain`; default: a `ttl` of 8 seconds. */
  readonly settings?: object
  readonly delta?: boolean
  /** By identity, in the folder of the configuration. */
  readonly tokenFiles?: Readonly<Record<string, string>>
  /** Runs between the second certificate of each and the third. */
  readonly between?: (agent: Process & { readonly adminPort: number }, folder: string) => Promise<void>
}

/** The agent as a process, the two Envoys of deploy/envoy, and requests from one to the other. */
interface UnderTraffic extends AsyncDisposable {
  readonly agent: Process & { readonly adminPort: number }
  /** Of the configuration. */
  readonly folder: string
  readonly pair: Pair
  readonly traffic: Traffic
  readonly apiSerials: ReadonlySet<string>
  /** Resolves once each Envoy has shown so many certificates. */
  shown(count: number): Promise<void>
  /** Ends the requests, and asserts that none failed. */
  stop(): Promise<void>
}

export async function startUnderTraffic(options: RotationOptions): Promise<UnderTraffic> {
  await using starting = new AsyncDisposableStack()
  const { path: folder } = starting.use(new TemporaryFolder())
  const identity = (id: string, socket: string) => {
    const tokenFile = options.tokenFiles?.[id]
    return { id, socket, ...(tokenFile !== undefined && { tokenFile }) }
  }
  const agent = starting.use(
    await startAgent(folder, {
      trustDomain: 'cluster.local',
      ca: await options.ca(folder),
      identities: [identity(WEB, 'run/web.sock'), identity(API, 'run/api.sock')],
      ...(options.settings ?? { ttl: '8s' }),
    }),
  )
  const socket = (name: string) => join(folder, 'run', `${name}.sock`)
  const { delta = false } = options
  const pair = starting.use(await Pair.start(folder, { web: socket('web'), api: socket('api') }, { delta }))
  await pair.live()
  const traffic = starting.use(new Traffic(pair.port))
  const apiSerials = new Set<string>()
  const shown = async (count: number) => {
    await until(
      `api and web have each shown ${count} certificates`,
      async () => {
        for (const { serial } of await pair.api.certificates()) apiSerials.add(serial)
        return (traffic.serials.size >= count && apiSerials.size >= count) || undefined
      },
      60_000,
    )
  }
  const stop = async () => {
    await traffic.stop()
    assert.deepEqual(traffic.failures, [])
    assert.ok(traffic.requests > 100, `only ${traffic.requests} requests`)
    assert.doesNotMatch(agent.output, /PRIVATE KEY/)
  }
  const started = starting.move()
  const end = () => started.disposeAsync()
  return { agent, folder, pair, traffic, apiSerials, shown, stop, [Symbol.asyncDispose]: end }
}

/** Resolves once each Envoy has shown three certificates. */
export async function rotateUnderTraffic(options: RotationOptions): Promise<void> {
  await using run = await startUnderTraffic(options)
  await run.shown(2)
  await options.between?.(run.agent, run.folder)
  await run.shown(3)
  await run.stop()
}

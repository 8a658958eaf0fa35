/** Istio's own istiod, which benchmarks/peers/build.sh builds, as the CA of the real API server that LIVERY_KUBE names. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { get, Process, until } from './envoy-bench.ts'
import { KubeAdmin, noKube } from './kube-admin.ts'

const PEERS = process.env['LIVERY_PEERS']
const PROGRAM = join(PEERS ?? '', 'pilot-discovery')

/** For `test(name, { skip }, …)`. */
export const noIstiod = noKube || noProgram()

function noProgram(): string | false {
  if (!PEERS) return 'LIVERY_PEERS is not set: benchmarks/peers/build.sh builds istiod'
  return existsSync(PROGRAM) ? false : `there is no ${PROGRAM}: benchmarks/peers/build.sh builds it`
}

interface IstiodOptions {
  /** A new one: the lease of an istiod that was killed lasts half a minute. */
  readonly namespace: string
  /** `namespace/account`, as in `CA_TRUSTED_NODE_ACCOUNTS`. Default: none. */
  readonly trusted?: string
  /** By which its clients know it. */
  readonly host: string
}

/** It has the keys of its own CA, made at its start, and writes its root to each namespace. Killed when disposed. */
export class Istiod implements AsyncDisposable {
  /** Of the CA and of xDS, over TLS. */
  readonly port: number
  readonly #stack: AsyncDisposableStack
  readonly #process: Process

  private constructor(port: number, process: Process, stack: AsyncDisposableStack) {
    this.port = port
    this.#process = process
    this.#stack = stack
  }

  static async start({ namespace, trusted = '', host }: IstiodOptions): Promise<Istiod> {
    await using starting = new AsyncDisposableStack()
    const folder = starting.use(new TemporaryFolder())
    const kube = new KubeAdmin()
    await kube.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
    starting.defer(async () => {
      await kube.call('DELETE', `/api/v1/namespaces/${namespace}`)
    })
    const port = await freePort()
    const httpPort = await freePort()
    const addresses = { httpAddr: httpPort, secureGRPCAddr: port, httpsAddr: 0, grpcAddr: 0, monitoringAddr: 0 }
    const flags = Object.entries(addresses).map(([name, at]) => `--${name}=127.0.0.1:${at}`)
    const istiod = starting.use(
      new Process(PROGRAM, ['discovery', `--kubeconfig=${process.env['LIVERY_KUBE']}`, '--ctrlz_port=0', ...flags], {
        cwd: folder.path,
        env: {
          PATH: process.env['PATH'],
          POD_NAME: 'istiod-1',
          POD_NAMESPACE: namespace,
          CA_TRUSTED_NODE_ACCOUNTS: trusted,
          ISTIOD_CUSTOM_HOST: host,
          // Filters of Istio's own build of Envoy.
          PILOT_ENABLE_METADATA_EXCHANGE: 'false',
          PILOT_ENABLE_ALPN_FILTER: 'false',
        },
      }),
    )
    const isReady = async () => {
      if (istiod.child.exitCode !== null) throw new Error(istiod.output)
      return (await get(httpPort, '/ready')).status === 200 || undefined
    }
    await until('istiod is ready', isReady, 120_000).catch(cause => {
      throw new Error(istiod.output, { cause })
    })
    return new Istiod(port, istiod, starting.move())
  }

  get log(): string {
    return this.#process.output
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync()
  }
}

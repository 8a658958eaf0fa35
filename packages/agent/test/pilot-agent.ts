/** Istio's own pilot-agent, unchanged, as benchmarks/peers/build.sh builds it, with the Envoy that it starts. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '@livery/test-support'
import { ENVOY, noEnvoy } from './envoy-bench.ts'
import { type IstioPod, notRoot, PROXY } from './istio-pod.ts'

const PEERS = process.env['LIVERY_PEERS']
const PROGRAM = join(PEERS ?? '', 'pilot-agent')
/** Istio's own, as its image has it. */
const TEMPLATE = join(PEERS ?? '', 'envoy_bootstrap_tmpl.json')

/** For `test(name, { skip }, …)`. */
export const cannotRunPilotAgent = notRoot || noEnvoy || noPilotAgent()

function noPilotAgent(): string | false {
  if (!PEERS) return 'LIVERY_PEERS is not set: benchmarks/peers/build.sh builds pilot-agent'
  const absent = [PROGRAM, TEMPLATE].find(path => !existsSync(path))
  return absent ? `there is no ${absent}: benchmarks/peers/build.sh builds it` : false
}

interface PilotAgentOptions {
  /** Default: `sidecar`. */
  readonly role?: 'sidecar' | 'router'
  /** Host and port of an istiod. Default: none is there. */
  readonly discoveryAddress?: string
}

/** `pilot-agent proxy` and the Envoy that it starts; killed when disposed. */
export class PilotAgent implements AsyncDisposable {
  readonly envoyAdmin: number
  readonly ended: Promise<number | null>
  output = ''
  readonly #child: ChildProcess

  private constructor(child: ChildProcess, envoyAdmin: number) {
    this.#child = child
    this.envoyAdmin = envoyAdmin
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.output += text
      })
    this.ended = once(child, 'close').then(([code]) => code)
  }

  /** `socketFile`: the name of the workload socket in its folder. */
  static async start(
    { cwd, env }: IstioPod,
    socketFile: string,
    { role = 'sidecar', discoveryAddress }: PilotAgentOptions = {},
  ): Promise<PilotAgent> {
    const envoyAdmin = await freePort()
    const child = spawn(PROGRAM, ['proxy', role, '--log_output_level=default:debug'], {
      cwd,
      uid: PROXY,
      gid: PROXY,
      // A process group, so that its Envoy ends with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...(await surroundings(cwd, envoyAdmin, discoveryAddress)),
        ...env,
        WORKLOAD_IDENTITY_SOCKET_FILE: socketFile,
      },
    })
    return new PilotAgent(child, envoyAdmin)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { exitCode, pid } = this.#child
    if (exitCode === null && pid) process.kill(-pid, 'SIGKILL')
    await this.ended
  }
}

/** Its environment beside that of the pod; makes the folders and files that it needs. */
async function surroundings(
  cwd: string,
  envoyAdmin: number,
  discoveryAddress: string | undefined,
): Promise<Readonly<Record<string, string>>> {
  await mkdir(join(cwd, 'etc/istio/proxy'), { recursive: true })
  await chmod(join(cwd, 'etc/istio/proxy'), 0o777)
  // Without istiod Envoy would wait for its first answer before it asks for secrets.
  const noAnswer = { initial_fetch_timeout: '0.1s' }
  const override = discoveryAddress ? {} : { dynamic_resources: { cds_config: noAnswer, lds_config: noAnswer } }
  await writeFile(join(cwd, 'override.json'), JSON.stringify(override), { mode: 0o644 })
  const proxyConfig = {
    discoveryAddress: discoveryAddress ?? `127.0.0.1:${await freePort()}`,
    proxyAdminPort: envoyAdmin,
    statusPort: await freePort(),
    binaryPath: ENVOY,
    proxyBootstrapTemplatePath: TEMPLATE,
    concurrency: 1,
  }
  return {
    POD_NAME: 'web-1',
    INSTANCE_IP: '127.0.0.1',
    // It asks the metadata servers of clouds otherwise.
    CLOUD_PLATFORM: 'none',
    XDS_ROOT_CA: 'root.pem',
    PROXY_CONFIG: JSON.stringify(proxyConfig),
    ISTIO_BOOTSTRAP_OVERRIDE: 'override.json',
    ENVOY_STATUS_PORT: `${await freePort()}`,
    ENVOY_PROMETHEUS_PORT: `${await freePort()}`,
    // The bootstrap has a listener with `default` and `ROOTCA` there.
    ENVOY_SECURE_METRICS_PORT: `${await freePort()}`,
  }
}

/** Real processes for the end-to-end tests: the agent as users start it, Envoy with the files of deploy/envoy, and traffic. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '@livery/test-support'
import { parse } from 'yaml'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const VERSION = process.env['LIVERY_ENVOY_VERSION'] ?? '1.40.0'
export const ENVOY = join(root, '.cache', `envoy-${VERSION}`)
const LIVERY = join(root, 'packages', 'agent', 'bin', 'livery.js')

/** For `test(name, { skip }, …)`: the reason where the set-up could not fetch Envoy. */
export const noEnvoy = existsSync(ENVOY)
  ? false
  : 'no Envoy: the test set-up could not fetch it (npm run envoy says why)'

/** As {@link noEnvoy}, for what Envoy has from 1.`minor` on. */
export function noEnvoySince(minor: number): string | false {
  return noEnvoy || (Number(VERSION.split('.')[1]) < minor && `no Envoy: ${VERSION} is older than 1.${minor}`)
}

/** Other processes do not report that they are ready: polls every 20 ms, and fails with the last result after `ms`. */
export async function until<T>(what: string, look: () => Promise<T | undefined>, ms = 20_000): Promise<T> {
  const end = performance.now() + ms
  let last: unknown
  while (performance.now() < end) {
    try {
      const found = await look()
      if (found !== undefined) return found
    } catch (error) {
      last = error
    }
    await wait(20)
  }
  throw new Error(`not within ${ms} ms: ${what}`, { cause: last })
}

interface Answer {
  readonly status: number
  readonly headers: NodeJS.Dict<string | string[]>
  readonly body: string
}

export function get(port: number, path: string, host = '127.0.0.1'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = request({ host, port, path, timeout: 10_000 }, response => {
      let body = ''
      response.setEncoding('utf8').on('data', text => {
        body += text
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }))
      response.on('error', reject)
    })
    call.on('timeout', () => call.destroy(new Error(`no answer from ${path} within 10 s`)))
    call.on('error', reject).end()
  })
}

/** A child process with what it printed; killed when disposed. */
export class Process implements AsyncDisposable {
  readonly child: ChildProcess
  output = ''
  readonly exited: Promise<unknown>

  constructor(
    command: string,
    args: readonly string[],
    options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv },
  ) {
    this.child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] })
    this.exited = once(this.child, 'exit')
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', text => {
        this.output += text
      })
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill('SIGKILL')
    await this.exited
  }
}

/** The agent as a process, ready. `config` is written as its livery.yaml (JSON is YAML). */
export async function startAgent(cwd: string, config: object): Promise<Process & { readonly adminPort: number }> {
  const adminPort = await freePort()
  const file = join(cwd, 'livery.yaml')
  await writeFile(file, JSON.stringify({ ...config, admin: { address: `127.0.0.1:${adminPort}` } }))
  const agent = Object.assign(new Process(process.execPath, [LIVERY, 'run', '--config', file], { cwd }), { adminPort })
  await until('the agent is ready', async () => {
    if (agent.child.exitCode !== null) throw new Error(agent.output)
    return (await get(adminPort, '/healthz/ready?strict')).status === 200 || undefined
  }).catch(async error => {
    await agent[Symbol.asyncDispose]()
    throw new Error(`the agent did not become ready: ${agent.output}`, { cause: error })
  })
  return agent
}

/** Runs the CLI to its end. */
export async function livery(cwd: string, ...args: string[]): Promise<string> {
  const run = new Process(process.execPath, [LIVERY, ...args], { cwd })
  await once(run.child, 'close')
  return run.output
}

/** Any part of an Envoy configuration. */
export type Tree = { [key: string]: Tree } & Tree[] & { path: string; port_value: number; api_type: string }

/** A file of deploy/envoy, with its ports and sockets moved out of the way of others. */
export async function deployed(
  name: 'api' | 'web' | 'tenants' | 'gateway' | 'token',
  moves: { readonly socket: string; readonly ports: ReadonlyMap<number, number>; readonly delta?: boolean },
): Promise<Tree> {
  let text = await readFile(join(root, 'deploy', 'envoy', `${name}.yaml`), 'utf8')
  text = text.replaceAll(/\.\/\.livery\/run\/\w+\.sock/g, moves.socket)
  text = text.replaceAll(/port_value: (\d+)/g, (_, port) => `port_value: ${moves.ports.get(Number(port)) ?? port}`)
  if (moves.delta) text = text.replaceAll('api_type: GRPC', 'api_type: DELTA_GRPC')
  return parse(text) as Tree
}

export class Envoy extends Process {
  readonly adminPort: number
  readonly #adminHost: string

  private constructor([command = '', ...words]: readonly string[], cwd: string, admin: Tree) {
    super(command, words, { cwd })
    this.adminPort = admin.port_value
    this.#adminHost = String(admin['address'])
  }

  /**
   * Starts Envoy; resolves when its admin port answers (it may still wait for secrets). `launcher` is a command that runs
   * the one behind it.
   */
  static async start(cwd: string, name: string, config: Tree, launcher: readonly string[] = []): Promise<Envoy> {
    const admin = config['admin']?.['address']?.['socket_address']
    if (!admin) throw new Error(`the configuration of Envoy ${name} has no admin address`)
    const file = join(cwd, `${name}.json`)
    await writeFile(file, JSON.stringify(config))
    const command = [...launcher, ENVOY, '-c', file, '--use-dynamic-base-id', '--concurrency', '1', '-l', 'warning']
    const envoy = new Envoy(command, cwd, admin)
    await until(`Envoy ${name} answers`, async () => {
      if (envoy.child.exitCode !== null) throw new Error(envoy.output)
      return (await envoy.#get('/server_info')).status === 200 || undefined
    })
    return envoy
  }

  async live(): Promise<void> {
    await until('Envoy is live', async () => (await this.#get('/ready')).status === 200 || undefined)
  }

  async certificates(): Promise<readonly { readonly uri: string; readonly serial: string }[]> {
    const { body } = await this.#get('/certs')
    const { certificates } = JSON.parse(body) as {
      certificates: { cert_chain?: { serial_number: string; subject_alt_names?: { uri?: string }[] }[] }[]
    }
    return certificates.flatMap(({ cert_chain }) => {
      const leaf = cert_chain?.[0]
      return leaf ? [{ uri: leaf.subject_alt_names?.[0]?.uri ?? '', serial: leaf.serial_number }] : []
    })
  }

  async stat(name: string): Promise<number> {
    const { body } = await this.#get(`/stats?filter=^${name.replaceAll('.', '\\.')}$`)
    return Number(/: (\d+)/.exec(body)?.[1] ?? 0)
  }

  #get(path: string): Promise<Answer> {
    return get(this.adminPort, path, this.#adminHost)
  }
}

/** The two Envoys of deploy/envoy in front of two sockets; web's connections to api are renewed every five requests. */
export class Pair implements AsyncDisposable {
  readonly api: Envoy
  readonly web: Envoy
  readonly port: number

  private constructor(api: Envoy, web: Envoy, port: number) {
    this.api = api
    this.web = web
    this.port = port
  }

  static async start(
    cwd: string,
    sockets: { readonly api: string; readonly web: string },
    options: { readonly delta?: boolean; readonly change?: (web: Tree) => void } = {},
  ): Promise<Pair> {
    const ports = new Map<number, number>()
    for (const port of [15443, 19001, 15001, 19002]) ports.set(port, await freePort())
    const delta = options.delta ?? false
    const web = await deployed('web', { socket: sockets.web, ports, delta })
    const toApi = web['static_resources']?.['clusters']?.[0]
    if (!toApi) throw new Error('deploy/envoy/web.yaml has no cluster')
    Object.assign(toApi, { typed_extension_protocol_options: FIVE_REQUESTS_PER_CONNECTION })
    options.change?.(web)
    const apiEnvoy = await Envoy.start(cwd, 'api', await deployed('api', { socket: sockets.api, ports, delta }))
    const webEnvoy = await Envoy.start(cwd, 'web', web)
    return new Pair(apiEnvoy, webEnvoy, ports.get(15001) ?? 0)
  }

  async live(): Promise<void> {
    await Promise.all([this.api.live(), this.web.live()])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.api[Symbol.asyncDispose](), this.web[Symbol.asyncDispose]()])
  }
}

export const FIVE_REQUESTS_PER_CONNECTION = {
  'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
    '@type': 'type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions',
    common_http_protocol_options: { max_requests_per_connection: 5 },
    explicit_http_config: { http_protocol_options: {} },
  },
}

/** Without a pause, requests take all the CPU from the agent and from other tests. */
const PAUSE_MS = 20

/** Requests until stopped; remembers every failure and every serial that api saw web call with. */
export class Traffic implements AsyncDisposable {
  readonly failures: string[] = []
  readonly serials = new Set<string>()
  requests = 0
  readonly #port: number
  readonly #loops: Promise<void>[]
  #stopped = false

  constructor(port: number, loops = 4) {
    this.#port = port
    this.#loops = Array.from({ length: loops }, () => this.#loop())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#loops)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #loop(): Promise<void> {
    while (!this.#stopped) {
      try {
        const { status, headers, body } = await get(this.#port, '/')
        if (status !== 200) this.failures.push(`${status} ${body}`)
        else this.serials.add(String(headers['x-caller-serial']))
      } catch (error) {
        this.failures.push(String(error))
      }
      this.requests++
      await wait(PAUSE_MS)
    }
  }
}

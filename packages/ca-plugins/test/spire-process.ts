/** A real SPIRE: its server and its agent as processes, on loopback and in a folder of their own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort } from '@livery/test-support'

/** A folder with `spire-server` and `spire-agent`. */
const PROGRAMS = process.env['LIVERY_SPIRE']

/** For `test(name, { skip }, …)`. */
export const noSpire =
  PROGRAMS === undefined ? 'no SPIRE: set LIVERY_SPIRE to the folder of spire-server and spire-agent' : false

const AGENT_ID = 'spiffe://cluster.local/spire-agent'
const START_MS = 30_000

export class Spire implements AsyncDisposable {
  readonly #folder: string
  readonly #server: ChildProcess
  #agent: ChildProcess | undefined
  #log = ''

  private constructor(folder: string) {
    this.#folder = folder
    this.#server = this.#spawn('spire-server', 'server.conf')
  }

  /** Resolves when the Workload API answers. `folder` has a short path. */
  static async start(folder: string): Promise<Spire> {
    const port = await freePort()
    await mkdir(join(folder, 'data'), { recursive: true })
    await writeFile(join(folder, 'server.conf'), serverConfig(folder, port))
    const spire = new Spire(folder)
    try {
      await spire.#until('the server answers', () => spire.server('healthcheck'))
      const { value } = JSON.parse(await spire.server('token', 'generate', '-spiffeID', AGENT_ID, '-output', 'json'))
      await writeFile(join(folder, 'agent.conf'), agentConfig(folder, port, value))
      await spire.startAgent()
    } catch (error) {
      await spire[Symbol.asyncDispose]()
      throw new Error(`SPIRE did not start: ${spire.#log}`, { cause: error })
    }
    return spire
  }

  get address(): string {
    return `unix://${this.#socket}`
  }

  async startAgent(): Promise<void> {
    this.#agent = this.#spawn('spire-agent', 'agent.conf')
    await this.#until('the agent serves', async () => {
      if (!existsSync(this.#socket)) throw new Error('there is no socket yet')
    })
  }

  /** As a node does that loses power. */
  async killAgent(): Promise<void> {
    await end(this.#agent)
  }

  /** Registers `identity` for the user of this process. */
  async register(identity: string, ttlSeconds: number): Promise<void> {
    const user = `unix:uid:${process.getuid?.()}`
    const life = ['-x509SVIDTTL', String(ttlSeconds)]
    await this.server('entry', 'create', '-parentID', AGENT_ID, '-spiffeID', identity, '-selector', user, ...life)
  }

  /** A new root, which certificates are under from now on; resolves with the ID of the old one. */
  async switchRoot(): Promise<string> {
    const authority = async (verb: string, ...options: readonly string[]) =>
      JSON.parse(await this.server('localauthority', 'x509', verb, ...options, '-output', 'json'))
    const { active } = await authority('show')
    const { prepared_authority: prepared } = await authority('prepare')
    await authority('activate', '-authorityID', prepared.authority_id)
    return active.authority_id
  }

  /** Certificates under it are replaced at once, then it goes. */
  async giveUpRoot(id: string): Promise<void> {
    for (const verb of ['taint', 'revoke']) await this.server('localauthority', 'x509', verb, '-authorityID', id)
  }

  /** A command of `spire-server`; resolves with what it prints. */
  async server(...command: readonly string[]): Promise<string> {
    const [verbs, options] = parted(command)
    const socket = ['-socketPath', join(this.#folder, 'server.sock')]
    const { stdout } = await promisify(execFile)(program('spire-server'), [...verbs, ...socket, ...options])
    return stdout
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.#agent)
    await end(this.#server)
  }

  get #socket(): string {
    return join(this.#folder, 'api.sock')
  }

  #spawn(name: string, config: string): ChildProcess {
    const args = ['run', '-config', join(this.#folder, config)]
    const child = spawn(program(name), args, { cwd: this.#folder, stdio: ['ignore', 'pipe', 'pipe'] })
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-20_000)
      })
    return child
  }

  /** Another process does not report that it is ready. */
  async #until(what: string, look: () => Promise<unknown>): Promise<void> {
    const last = performance.now() + START_MS
    for (;;) {
      try {
        await look()
        return
      } catch (error) {
        if (performance.now() > last) throw new Error(`not within ${START_MS} ms: ${what}`, { cause: error })
      }
      await wait(50)
    }
  }
}

function program(name: string): string {
  return join(PROGRAMS ?? '', name)
}

/** `-socketPath` stands between the verbs and the other options. */
function parted(command: readonly string[]): readonly [readonly string[], readonly string[]] {
  const first = command.findIndex(word => word.startsWith('-'))
  return first < 0 ? [command, []] : [command.slice(0, first), command.slice(first)]
}

async function end(child: ChildProcess | undefined): Promise<void> {
  if (!child || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** HCL. */
function serverConfig(folder: string, port: number): string {
  return `
server {
  bind_address = "127.0.0.1"
  bind_port = "${port}"
  socket_path = "${folder}/server.sock"
  trust_domain = "cluster.local"
  data_dir = "${folder}/data"
  log_level = "INFO"
}
plugins {
  DataStore "sql" {
    plugin_data {
      database_type = "sqlite3"
      connection_string = "${folder}/data/store.sqlite3"
    }
  }
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "memory" { plugin_data {} }
}
`
}

function agentConfig(folder: string, port: number, token: string): string {
  return `
agent {
  data_dir = "${folder}/data"
  log_level = "INFO"
  server_address = "127.0.0.1"
  server_port = "${port}"
  socket_path = "${folder}/api.sock"
  insecure_bootstrap = true
  trust_domain = "cluster.local"
  join_token = "${token}"
  experimental { sync_interval = "1s" }
}
plugins {
  NodeAttestor "join_token" { plugin_data {} }
  KeyManager "disk" { plugin_data { directory = "${folder}/data" } }
  WorkloadAttestor "unix" { plugin_data {} }
}
`
}

/** Envoys of many pods that call each other over mutual TLS, each at an address of its own, and steady requests that show who is at both ends. */
import { setTimeout as wait } from 'node:timers/promises'
import { deployed, Envoy, FIVE_REQUESTS_PER_CONNECTION, get, type Tree } from './envoy-bench.ts'
import { API } from './envoy-rotation.ts'

export interface MeshMember {
  readonly name: string
  /** Of the loopback, with the ports of deploy/envoy. */
  readonly address: string
  readonly identity: string
}

interface MeshEnvoyOptions {
  /** Livery's, as the Envoy sees it. */
  readonly socket: string
  readonly delta: boolean
  readonly launcher: readonly string[]
}

const PLAIN_PORT = 15_001
const PAUSE_MS = 10

/** Starts the Envoy of `self`: it takes calls as api does, and calls each of `peers` as web does; resolves when it has its secrets. */
export async function startMember(
  cwd: string,
  self: MeshMember,
  peers: readonly MeshMember[],
  { socket, delta, launcher }: MeshEnvoyOptions,
): Promise<Envoy> {
  const envoy = await Envoy.start(cwd, self.name, await configure(self, peers, socket, delta), launcher)
  try {
    await envoy.live()
    return envoy
  } catch (error) {
    await envoy[Symbol.asyncDispose]()
    throw new Error(envoy.output, { cause: error })
  }
}

/** The Envoys of deploy/envoy in one, with a cluster and a route for each peer. */
async function configure(
  self: MeshMember,
  peers: readonly MeshMember[],
  socket: string,
  delta: boolean,
): Promise<Tree> {
  const moves = { socket, delta, ports: new Map<number, number>() }
  const [api, web] = [await deployed('api', moves), await deployed('web', moves)]
  const { static_resources: parts, admin } = web
  const [toApi, livery] = parts?.['clusters'] ?? []
  const [plain] = parts?.['listeners'] ?? []
  const manager = plain?.['filter_chains']?.[0]?.['filters']?.[0]?.['typed_config']
  const [host] = manager?.['route_config']?.['virtual_hosts'] ?? []
  if (!parts || !toApi || !livery || !host) throw new Error('deploy/envoy/web.yaml has another form')
  Object.assign(host, { routes: peers.map(({ name }) => ({ match: { path: `/${name}` }, route: { cluster: name } })) })
  Object.assign(toApi, { typed_extension_protocol_options: FIVE_REQUESTS_PER_CONNECTION })
  const toPeers = peers.map(({ name, address, identity }) => ({ ...moved(toApi, address, identity), name }))
  const listeners = moved([plain, api['static_resources']?.['listeners']?.[0]], self.address)
  Object.assign(parts, { listeners, clusters: [...toPeers, livery] })
  return Object.assign(web, { node: { id: self.name, cluster: 'mesh' }, admin: moved(admin, self.address) })
}

/** A copy at another address, which calls another identity than api. */
function moved<Part>(part: Part, address: string, callee: string = API): Part {
  return JSON.parse(JSON.stringify(part).replaceAll('127.0.0.1', address).replaceAll(API, callee))
}

/** Requests from each member to each other in turn, until stopped. */
export class MeshTraffic implements AsyncDisposable {
  /** Each answer that was not the callee's, or not to a call of the caller's identity. */
  readonly failures: string[] = []
  requests = 0
  /** By member: the serials that its peers saw it call with. */
  readonly serials = new Map<MeshMember, Set<string>>()
  readonly #members: MeshMember[]
  readonly #loops: Promise<void>[]
  readonly #underWay = new Map<Promise<void>, readonly MeshMember[]>()
  #turn = 0
  #isStopped = false

  constructor(members: readonly MeshMember[], loops = 4) {
    this.#members = [...members]
    this.#loops = Array.from({ length: loops }, () => this.#loop())
  }

  add(member: MeshMember): void {
    this.#members.push(member)
  }

  /** Resolves when no request to or from `member` is under way; it gets no other. */
  async remove(member: MeshMember): Promise<void> {
    this.#members.splice(this.#members.indexOf(member), 1)
    const own = [...this.#underWay].filter(([, ends]) => ends.includes(member))
    await Promise.all(own.map(([request]) => request))
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await Promise.all(this.#loops)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #loop(): Promise<void> {
    while (!this.#isStopped) {
      const ends = this.#next()
      const request = this.#request(...ends)
      this.#underWay.set(request, ends)
      await request
      this.#underWay.delete(request)
      await wait(PAUSE_MS)
    }
  }

  #next(): readonly [MeshMember, MeshMember] {
    const count = this.#members.length
    const turn = this.#turn++
    const from = turn % count
    const to = (from + 1 + (Math.floor(turn / count) % (count - 1))) % count
    const [caller, callee] = [this.#members[from], this.#members[to]]
    if (!caller || !callee) throw new Error('requests need two members')
    return [caller, callee]
  }

  /** Never rejects. web checks the identity of its callee, and api returns that of its caller. */
  async #request(caller: MeshMember, callee: MeshMember): Promise<void> {
    this.requests++
    const where = `request ${this.requests}, ${caller.name} to ${callee.name}`
    try {
      const { status, headers, body } = await get(PLAIN_PORT, `/${callee.name}`, caller.address)
      const seen = headers['x-caller']
      if (status !== 200) this.failures.push(`${where}: ${status} ${body}`)
      else if (seen !== caller.identity) this.failures.push(`${where}: seen as ${seen}`)
      else this.#note(caller, String(headers['x-caller-serial']))
    } catch (error) {
      this.failures.push(`${where}: ${error}`)
    }
  }

  #note(caller: MeshMember, serial: string): void {
    const serials = this.serials.get(caller) ?? new Set()
    this.serials.set(caller, serials.add(serial))
  }
}

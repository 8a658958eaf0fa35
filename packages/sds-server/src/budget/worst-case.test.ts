/** A caller that multiplies every limit with every other: what it makes the server hold stays under its bytes. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import type { ClientHttp2Stream } from 'node:http2'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { temporaryFolder } from '@livery/test-support'
import { Attacked } from '../../test/attacked-process.ts'
import { peerNode } from '../../test/peer-node.ts'
import { literalHeaders, rawFrame } from '../../test/raw-http2.ts'
import { RawPeer, requestFrame } from '../../test/raw-peer.ts'
import { NEVER_ISSUED, WEB } from '../../test/running-server.ts'
import { namesOf, SdsClient } from '../../test/sds-client.ts'

const MIB = 1024 ** 2
/** The bytes that one caller may hold in this test, and the growth of the process for it: the heap has garbage, and slack. */
const CALLER_BYTES = 24 * MIB
const MOST_GROWTH = 256 * MIB
const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService'

/** The connections of an attack, which are closed after it. */
class Attack implements Disposable {
  readonly path: string
  readonly #peers: RawPeer[] = []
  readonly #sockets: Socket[] = []

  constructor(path: string) {
    this.path = path
  }

  /** A peer that reads no response if its window is closed. */
  peer(settings: { readonly initialWindowSize?: number } = {}): RawPeer {
    const peer = new RawPeer(this.path, settings)
    this.#peers.push(peer)
    return peer
  }

  socket(): Socket {
    const socket = connect(this.path).on('error', () => {})
    this.#sockets.push(socket)
    return socket
  }

  [Symbol.dispose](): void {
    for (const peer of this.#peers) peer[Symbol.dispose]()
    for (const socket of this.#sockets) socket.destroy()
  }
}

function call({ session }: RawPeer, path: string, headers: Record<string, string> = {}): ClientHttp2Stream {
  const all = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers', ...headers }
  return session
    .request(all)
    .on('error', () => {})
    .resume()
}

const WORKLOAD = '/SpiffeWorkloadAPI/FetchX509SVID'
const WORKLOAD_HEADER = { 'workload.spiffe.io': 'true' }

const node = peerNode('n')
/** 240 kB of names that nobody is allowed. */
function refusedNames(stream: number, count = 120, length = 2_000): string[] {
  return Array.from({ length: count }, (_, index) => `${stream}-${index}-`.padEnd(length, 'x'))
}

/** Made once: what the attacks cost their own process is not measured. */
const REFUSED = requestFrame({ node, resourceNames: refusedNames(0) })
const LONG_NODE = requestFrame({ node: peerNode('n'.repeat(250_000)), resourceNames: [WEB] })
const LONG_VERSION = requestFrame({ node, versionInfo: 'v'.repeat(250_000), resourceNames: [NEVER_ISSUED] })
/** HealthCheckRequest.service is field 1, as version_info is. */
const LONG_SERVICE = requestFrame({ versionInfo: 's'.repeat(250_000) })

/** Each opens what it can; the server may refuse any of it. */
const ATTACKS: Readonly<Record<string, (attack: Attack) => Promise<void> | void>> = {
  'refused names on every stream': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 150; index++) call(peer, `${SERVICE}/StreamSecrets`).write(REFUSED)
    }
  },
  'names of unknown bundles, in requests that add to each other': attack => {
    const peer = attack.peer()
    for (let index = 0; index < 200; index++) {
      const names = Array.from({ length: 900 }, (_, each) => `spiffe://t${index}-${each}.example`)
      call(peer, `${SERVICE}/StreamSecrets`).write(requestFrame({ node, resourceNames: names }))
    }
  },
  'node ids as long as a message': attack => {
    for (let of = 0; of < 4; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 120; index++) {
        call(peer, `${SERVICE}/StreamSecrets`).write(LONG_NODE)
      }
    }
  },
  'half a message on every stream': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 150; index++) {
        call(peer, `${SERVICE}/${index % 2 ? 'FetchSecrets' : 'StreamSecrets'}`).write(REFUSED.subarray(0, -1))
      }
    }
  },
  'half a message on every stream of the Workload API': attack => {
    for (let of = 0; of < 12; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 150; index++) call(peer, WORKLOAD, WORKLOAD_HEADER).write(REFUSED.subarray(0, -1))
    }
  },
  'responses of the Workload API that are not read, to callers with long headers': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer({ initialWindowSize: 0 })
      for (let index = 0; index < 120; index++) {
        const long = `${index}`.padEnd(10_000, 'h')
        call(peer, WORKLOAD, { ...WORKLOAD_HEADER, 'x-a': long, 'x-b': long, 'x-c': long }).end(Buffer.alloc(5))
      }
    }
  },
  'a byte of a message in every 16 kB that are read': async attack => {
    const socket = attack.socket()
    const headers = literalHeaders(
      [':method', 'POST'],
      [':scheme', 'http'],
      [':path', `${SERVICE}/StreamSecrets`],
      [':authority', 'sds'],
      ['content-type', 'application/grpc'],
    )
    const settings = rawFrame(4, 0, 0, Buffer.alloc(0))
    const begin = Buffer.concat([rawFrame(1, 4, 1, headers), rawFrame(0, 0, 1, Buffer.from([0, 0, 3, 0, 0]))])
    socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), settings, begin]))
    // A thousand PRIORITY frames, which are ignored, and one byte of the message.
    const ignored = Buffer.concat(Array.from({ length: 1_000 }, () => rawFrame(2, 0, 1, Buffer.alloc(5, 1))))
    const one = Buffer.concat([ignored, rawFrame(0, 0, 1, Buffer.alloc(1))])
    for (let count = 0; count < 4_000 && !socket.destroyed; count++) if (!socket.write(one)) await drained(socket)
  },
  'a second request behind a response that is not read': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer({ initialWindowSize: 0 })
      for (let index = 0; index < 80; index++) {
        const stream = call(peer, `${SERVICE}/StreamSecrets`)
        stream.write(requestFrame({ node, resourceNames: [WEB] }))
        stream.write(REFUSED)
        stream.write(REFUSED)
      }
    }
  },
  'responses that are not read': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer({ initialWindowSize: 0 })
      for (let index = 0; index < 300; index++)
        call(peer, `${SERVICE}/StreamSecrets`).write(requestFrame({ node, resourceNames: ['ROOTCA'] }))
    }
  },
  'fetches that wait, with a version as long as a message': attack => {
    for (let of = 0; of < 4; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 200; index++) {
        call(peer, `${SERVICE}/FetchSecrets`).end(LONG_VERSION)
      }
    }
  },
  'health watches of services with long names': attack => {
    for (let of = 0; of < 10; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 120; index++) {
        call(peer, '/grpc.health.v1.Health/Watch').end(LONG_SERVICE)
      }
    }
  },
  'long headers on every stream': attack => {
    for (let of = 0; of < 8; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 120; index++) {
        const long = `${index}`.padEnd(10_000, 'h')
        call(peer, `${SERVICE}/StreamSecrets`, { ':authority': long, 'x-a': long, 'x-b': long, 'x-c': long })
      }
    }
  },
  'empty streams': attack => {
    for (let of = 0; of < 4; of++) {
      const peer = attack.peer()
      for (let index = 0; index < 4_000; index++) call(peer, `${SERVICE}/DeltaSecrets`)
    }
  },
  connections: attack => {
    for (let index = 0; index < 3_000; index++) {
      const settings = rawFrame(4, 0, 0, Buffer.alloc(0))
      attack.socket().write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), settings]))
    }
  },
}

function drained(socket: Socket): Promise<unknown> {
  return new Promise(resolve => {
    socket.once('drain', resolve)
    socket.once('close', resolve)
  })
}

/** The most that the server has had, once both processes have nothing left to send or read. */
async function highest(server: Attacked): Promise<number> {
  let most = 0
  for (let quiet = 0; quiet < 20; ) {
    for (let turn = 0; turn < 20; turn++) await setImmediate()
    const { highest: now } = await server.report()
    quiet = now > most ? 0 : quiet + 1
    most = now
  }
  return most
}

async function isServed(path: string): Promise<boolean> {
  using client = new SdsClient(path)
  const stream = client.sotw()
  stream.ask(WEB)
  return namesOf(await stream.next()).join() === WEB
}

const skip = existsSync('/proc/self/status') ? false : 'needs /proc, to read how much memory a process has had'

for (const [what, run] of Object.entries(ATTACKS)) {
  test(`${what}: the process grows by less than 256 MiB, and another caller is served`, { skip }, async t => {
    const directory = temporaryFolder(t)
    await using server = await Attacked.start(directory, { perCaller: { bytes: CALLER_BYTES } })
    await server.order({ uid: 2 })
    assert.ok(await isServed(server.path))
    const before = (await server.report()).rss
    await server.order({ uid: 1 })
    using attack = new Attack(server.path)
    await run(attack)
    const growth = (await highest(server)) - before
    await server.order({ uid: 2 })
    assert.ok(await isServed(server.path))
    console.log(`${what}: ${(growth / MIB).toFixed(1)} MiB`)
    assert.ok(growth < MOST_GROWTH, `${(growth / MIB).toFixed(1)} MiB`)
  })
}

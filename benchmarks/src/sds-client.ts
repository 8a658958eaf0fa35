/** The client of the SDS suite, in a separate process: opens streams, and reports when all have an answer and a push. */
import * as grpc from '@grpc/grpc-js'

export interface ClientOrder {
  readonly socket: string
  readonly name: string
  /** Streams, each on a separate connection, as every Envoy has one. */
  readonly streams: number
}

/** `at` is `process.hrtime.bigint()` as text: one clock for all processes of a machine. */
export type ClientReport =
  | { readonly kind: 'answered'; readonly at: string; readonly startedAt: string }
  | { readonly kind: 'pushed'; readonly at: string }

const TYPE_URL = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'
const raw = { requestSerialize: (bytes: Buffer) => bytes, requestDeserialize: (bytes: Buffer) => bytes }
const StreamSecrets = grpc.makeGenericClientConstructor(
  {
    StreamSecrets: {
      path: '/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets',
      requestStream: true,
      responseStream: true,
      ...raw,
      responseSerialize: raw.requestSerialize,
      responseDeserialize: raw.requestDeserialize,
    },
  },
  'SecretDiscoveryService',
)

/** A DiscoveryRequest with node.id, one resource name and the type. */
function discoveryRequest(name: string): Buffer {
  const field = (number: number, body: Buffer) =>
    Buffer.concat([Buffer.from([(number << 3) | 2]), varint(body.length), body])
  const node = field(2, field(1, Buffer.from('bench')))
  return Buffer.concat([node, field(3, Buffer.from(name)), field(4, Buffer.from(TYPE_URL))])
}

function varint(value: number): Buffer {
  const bytes: number[] = []
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return Buffer.from([...bytes, rest])
    bytes.push((rest & 0x7f) | 0x80)
  }
}

function report(message: ClientReport): void {
  process.send?.(message)
}

process.on('message', ({ socket, name, streams }: ClientOrder) => {
  const startedAt = `${process.hrtime.bigint()}`
  const answers = new Map<number, number>()
  const request = discoveryRequest(name)
  for (let index = 0; index < streams; index++) {
    const client = new StreamSecrets(`unix:${socket}`, grpc.credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    })
    const open: unknown = client['StreamSecrets']?.bind(client)()
    if (!(open instanceof Object && 'write' in open)) throw new Error('no stream')
    const stream = open as grpc.ClientDuplexStream<Buffer, Buffer>
    let received = 0
    stream.on('data', () => {
      const count = (answers.get(received) ?? 0) + 1
      answers.set(received, count)
      if (count === streams) {
        const at = `${process.hrtime.bigint()}`
        report(received === 0 ? { kind: 'answered', at, startedAt } : { kind: 'pushed', at })
      }
      received++
    })
    stream.on('error', error => {
      process.stderr.write(`${error}\n`)
      process.exit(1)
    })
    stream.write(request)
  }
})

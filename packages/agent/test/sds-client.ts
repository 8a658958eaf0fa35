/** A gRPC client of SDS with just the fields that the tests look at. */
import { once } from 'node:events'
import { BinaryReader, BinaryWriter } from '@bufbuild/protobuf/wire'
import { Client, type ClientDuplexStream, credentials } from '@grpc/grpc-js'

const SERVICE = '/envoy.service.secret.v3.SecretDiscoveryService'
const SECRET_TYPE = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

/** A secret as Envoy would get it. */
export interface ReceivedSecret {
  readonly name: string
  readonly certificateChain: string
  readonly privateKey: string
  readonly trustedCa: string
  readonly crl: string
}

/** A connection, on which any number of calls can be made. */
interface Connection extends Disposable {
  readonly grpc: Client
  /** Asks once and waits for the answer. */
  fetch(names: readonly string[]): Promise<readonly ReceivedSecret[]>
}

/** Asks once, on a new connection, and waits for the answer. */
export async function fetchSecrets(socket: string, names: readonly string[]): Promise<readonly ReceivedSecret[]> {
  using client = connect(socket)
  return await client.fetch(names)
}

/** An open stream with its first answer. */
interface OpenStream extends Disposable {
  readonly secrets: readonly ReceivedSecret[]
  /** Every answer so far, the first included. */
  readonly answers: readonly (readonly ReceivedSecret[])[]
  /** Asks for other names, on the same stream. */
  ask(names: readonly string[]): void
  /** Resolves when there are so many. */
  answered(count: number): Promise<void>
  /** gRPC status code when the server ends it. */
  readonly ended: Promise<number>
}

interface StreamOptions {
  /** What it says of itself. */
  readonly node?: string
  /** Whether it acknowledges each answer (ACK). Default: none. */
  readonly accepts?: boolean
}

export async function openStream(
  socket: string,
  names: readonly string[],
  { node, accepts = false }: StreamOptions = {},
): Promise<OpenStream> {
  const client = connect(socket)
  const stream: ClientDuplexStream<StreamRequest, readonly ReceivedSecret[]> = client.grpc.makeBidiStreamRequest(
    `${SERVICE}/StreamSecrets`,
    ({ asked, accepted }) => encodeRequest(asked, node, accepted),
    answer => {
      if (accepts) stream.write({ asked: names, accepted: answer })
      return decodeResponse(answer)
    },
  )
  const ended = new Promise<number>(resolve => {
    stream.on('status', ({ code }: { readonly code: number }) => resolve(code))
  })
  stream.on('error', () => {})
  const answers: (readonly ReceivedSecret[])[] = []
  const first = new Promise<readonly ReceivedSecret[]>(resolve => stream.once('data', resolve))
  stream.on('data', (secrets: readonly ReceivedSecret[]) => answers.push(secrets))
  const answered = async (count: number): Promise<void> => {
    while (answers.length < count) await once(stream, 'data')
  }
  const ask = (others: readonly string[]) => void stream.write({ asked: others })
  ask(names)
  const close = (): void => {
    stream.cancel()
    client[Symbol.dispose]()
  }
  return { secrets: await first, answers, ask, answered, ended, [Symbol.dispose]: close }
}

interface StreamRequest {
  readonly asked: readonly string[]
  /** The bytes of the answer that is acknowledged. */
  readonly accepted?: Uint8Array
}

/** Its own connection, as each Envoy has. */
export function connect(socket: string): Connection {
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const grpc = new Client(`unix:${socket}`, credentials.createInsecure(), options)
  const fetch = (names: readonly string[]) => {
    const { promise, resolve, reject } = Promise.withResolvers<readonly ReceivedSecret[]>()
    grpc.makeUnaryRequest(
      `${SERVICE}/FetchSecrets`,
      (asked: readonly string[]) => encodeRequest(asked),
      decodeResponse,
      names,
      (error, secrets) => (error ? reject(error) : resolve(secrets ?? [])),
    )
    return promise
  }
  return { grpc, fetch, [Symbol.dispose]: () => grpc.close() }
}

function encodeRequest(names: readonly string[], nodeId = 'test-node', accepted?: Uint8Array): Buffer {
  const writer = new BinaryWriter()
  if (accepted) for (const version of fields(accepted, 1)) writer.uint32(tag(1)).bytes(version)
  const node = new BinaryWriter().uint32(tag(1)).string(nodeId).finish()
  writer.uint32(tag(2)).bytes(node)
  for (const name of names) writer.uint32(tag(3)).string(name)
  writer.uint32(tag(4)).string(SECRET_TYPE)
  if (accepted) for (const nonce of fields(accepted, 5)) writer.uint32(tag(5)).bytes(nonce)
  return Buffer.from(writer.finish())
}

function decodeResponse(bytes: Uint8Array): readonly ReceivedSecret[] {
  return fields(bytes, 2).map(any => {
    const [secret = new Uint8Array()] = fields(any, 2)
    const inline = (message: number, source: number): string => {
      const [outer = new Uint8Array()] = fields(secret, message)
      const [data = new Uint8Array()] = fields(outer, source)
      return Buffer.from(fields(data, 2)[0] ?? '').toString()
    }
    return {
      name: Buffer.from(fields(secret, 1)[0] ?? '').toString(),
      certificateChain: inline(2, 1),
      privateKey: inline(2, 2),
      trustedCa: inline(4, 1),
      crl: inline(4, 7),
    }
  })
}

/** The length-delimited fields with this number. */
function fields(bytes: Uint8Array, number: number): Uint8Array[] {
  const reader = new BinaryReader(bytes)
  const found: Uint8Array[] = []
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag()
    if (field === number && wireType === 2) found.push(reader.bytes())
    else reader.skip(wireType)
  }
  return found
}

function tag(field: number): number {
  return (field << 3) | 2
}

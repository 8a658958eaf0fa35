/** SDS streams at the level of HTTP/2, cheap enough to have hundreds, whose flow-control windows are under control. */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { connect as connectSocket } from 'node:net'
import { BinaryWriter } from '@bufbuild/protobuf/wire'

const SECRET_TYPE = 'type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret'

/** The two forms of the protocol, with the numbers of the fields that differ. */
const FORMS = {
  StreamSecrets: { node: 2, names: 3, typeUrl: 4 },
  DeltaSecrets: { node: 1, names: 3, typeUrl: 2 },
} as const

interface HeldStream extends AsyncDisposable {
  /** Resolves when the connection is gone. */
  readonly closed: Promise<unknown>
}

/**
 * Asks for `name` on a new connection. Resolves when the first bytes of the answer are here; with a `window` of 0,
 * when the headers are, behind which the message waits.
 */
export async function holdStream(
  socket: string,
  name: string,
  {
    method = 'StreamSecrets',
    window = 65_535,
  }: { readonly method?: keyof typeof FORMS; readonly window?: number } = {},
): Promise<HeldStream> {
  const session = connect('http://localhost', {
    createConnection: () => connectSocket(socket),
    settings: { initialWindowSize: window },
  })
  session.on('error', () => {})
  const closed = once(session, 'close')
  const stream = session.request({
    ':method': 'POST',
    ':path': `/envoy.service.secret.v3.SecretDiscoveryService/${method}`,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.on('error', () => {})
  stream.write(frame(encodeRequest(FORMS[method], name)))
  await once(stream, window === 0 ? 'response' : 'data')
  stream.resume()
  const close = async (): Promise<void> => {
    session.destroy()
    await closed
  }
  return { closed, [Symbol.asyncDispose]: close }
}

function encodeRequest(numbers: (typeof FORMS)[keyof typeof FORMS], name: string): Uint8Array {
  const text = (number: number, value: string) =>
    new BinaryWriter()
      .uint32((number << 3) | 2)
      .string(value)
      .finish()
  const node = new BinaryWriter()
    .uint32((numbers.node << 3) | 2)
    .bytes(text(1, 'test-node'))
    .finish()
  return Buffer.concat([node, text(numbers.names, name), text(numbers.typeUrl, SECRET_TYPE)])
}

function frame(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

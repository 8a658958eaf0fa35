/** One connection to Mesh CA (`google.security.meshca.v1`). */
import { Client, type ClientUnaryCall, type Metadata } from '@grpc/grpc-js'
import type { TlsMaterial } from '@livery/core'
import type { Connection } from '../../transport/current-connection.ts'
import type { GoogleEndpoint } from './google-ca-config.ts'
import { CHANNEL_OPTIONS, channelCredentials } from './google-channel.ts'

export const MESH_CREATE_CERTIFICATE = '/google.security.meshca.v1.MeshCertificateService/CreateCertificate'

export class MeshCaConnection implements Connection {
  readonly #client: Client

  constructor(endpoint: GoogleEndpoint, material: TlsMaterial) {
    this.#client = new Client(`dns:///${endpoint.address}`, channelCredentials(endpoint, material), CHANNEL_OPTIONS)
  }

  /** Bytes to bytes, so that a bad answer is told from a broken call. Rejects with a `ServiceError`, or the signal's reason. */
  async createCertificate(request: Buffer, metadata: Metadata, signal: AbortSignal): Promise<Buffer> {
    signal.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
    const call: ClientUnaryCall = this.#client.makeUnaryRequest(
      MESH_CREATE_CERTIFICATE,
      passThrough,
      passThrough,
      request,
      metadata,
      (error, bytes) => (error ? reject(error) : resolve(bytes ?? Buffer.alloc(0))),
    )
    const onAbort = () => {
      reject(signal.reason)
      call.cancel()
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  close(): void {
    this.#client.close()
  }
}

function passThrough(bytes: Buffer): Buffer {
  return bytes
}

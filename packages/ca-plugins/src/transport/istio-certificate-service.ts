/** `istio.v1.auth.IstioCertificateService`, as its client and its server both need it. */
import { BinaryWriter } from '@bufbuild/protobuf/wire'
import type { ServiceDefinition } from '@grpc/grpc-js'
import { IstioCertificateRequest, IstioCertificateResponse } from '../gen/istio/v1/auth/ca.ts'

export const CREATE_CERTIFICATE = '/istio.v1.auth.IstioCertificateService/CreateCertificate'

/** Metadata field of a request: the identity that a node's agent asks for on behalf of a workload. */
export const IMPERSONATED_IDENTITY = 'ImpersonatedIdentity'
/** Metadata field of a request: the signer that the CA should use. */
export const CERT_SIGNER = 'CertSigner'

export const istioCertificateService = {
  createCertificate: {
    path: CREATE_CERTIFICATE,
    requestStream: false,
    responseStream: false,
    requestSerialize: encodeRequest,
    requestDeserialize: (bytes: Buffer): IstioCertificateRequest => IstioCertificateRequest.decode(bytes),
    responseSerialize: encodeResponse,
    responseDeserialize: (bytes: Buffer): IstioCertificateResponse => IstioCertificateResponse.decode(bytes),
  },
} satisfies ServiceDefinition

/** Reuses memory between requests: fresh pieces for each would cost more than the encoding. */
let writer = new BinaryWriter()

export function encodeRequest(request: IstioCertificateRequest): Buffer {
  try {
    const { buffer, byteOffset, byteLength } = IstioCertificateRequest.encode(request, writer).finish()
    return Buffer.from(buffer, byteOffset, byteLength)
  } catch (error) {
    // The old writer holds a part of this request.
    writer = new BinaryWriter()
    throw error
  }
}

export function encodeResponse(response: IstioCertificateResponse): Buffer {
  return Buffer.from(IstioCertificateResponse.encode(response).finish())
}

/** The text of a metadata field, or `undefined` if it is absent or not text. */
export function metadataText({ metadata }: IstioCertificateRequest, name: string): string | undefined {
  return metadata?.fields.get(name)?.kind?.value
}

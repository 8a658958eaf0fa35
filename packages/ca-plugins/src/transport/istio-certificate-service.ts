/** `istio.v1.auth.IstioCertificateService`, as its client and its server both need it. */
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

export function encodeRequest(request: IstioCertificateRequest): Buffer {
  return Buffer.from(IstioCertificateRequest.encode(request).finish())
}

export function encodeResponse(response: IstioCertificateResponse): Buffer {
  return Buffer.from(IstioCertificateResponse.encode(response).finish())
}

/** The text of a metadata field, or `undefined` if it is absent or no text. */
export function metadataText({ metadata }: IstioCertificateRequest, name: string): string | undefined {
  return metadata?.fields.get(name)?.kind?.value
}

/** Istio's certificate service with answers in bytes, so that they can be wrong. */
import type { ServiceDefinition } from '@grpc/grpc-js'
import { istioCertificateService } from '../transport/istio-certificate-service.ts'

export const istioByteService = {
  createCertificate: {
    ...istioCertificateService.createCertificate,
    responseSerialize: (bytes: Buffer) => bytes,
    responseDeserialize: (bytes: Buffer) => bytes,
  },
} satisfies ServiceDefinition

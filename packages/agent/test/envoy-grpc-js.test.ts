/** The main job with real Envoys, on the streams of grpc-js: `envoy.test.ts` has it on those of HTTP/2 itself. */
process.env['LIVERY_SDS_TRANSPORT'] = 'grpc-js'

await import('./envoy.test.ts')

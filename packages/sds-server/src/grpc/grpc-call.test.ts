/**
 * The tests that touch the transport of streams, on that of grpc-js: it serves where a version of grpc-js has to see every
 * stream, and with `LIVERY_SDS_TRANSPORT`.
 */
process.env['LIVERY_SDS_TRANSPORT'] = 'grpc-js'

await import('./counted-call.test.ts')
await import('./hostile-peers.test.ts')
await import('./listed-streams.test.ts')
await import('./stuck-readers.test.ts')
await import('./unfit-streams.test.ts')
await import('../budget/heap-budget.test.ts')
await import('../budget/rates.test.ts')
await import('../budget/request-rate.test.ts')
await import('../protocol/sotw-stream.test.ts')
await import('../protocol/delta-stream.test.ts')
await import('../protocol/receipts.test.ts')
await import('../workload-api/workload-service.test.ts')
await import('../workload-api/workload-bounds.test.ts')

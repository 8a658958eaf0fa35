/** A real Envoy whose listener needs a secret that it is refused, as that of a gateway which asks for `kubernetes://NAME`. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { freePort, TemporaryFolder } from '@livery/test-support'
import { deployed, Envoy, get, noEnvoy, startAgent } from './envoy-bench.ts'
import { API } from './envoy-rotation.ts'

interface Gateway extends AsyncDisposable {
  readonly envoy: Envoy
  readonly port: number
  /** Counters of the secret that is refused, by their last names. */
  counters(): Promise<Readonly<Record<string, number>>>
}

/** Which secret of the listener is `kubernetes://gateway`. */
type Part = 'certificate' | 'roots'

async function startGateway(refusedNames: string, part: Part, initialFetchTimeout: string): Promise<Gateway> {
  await using parts = new AsyncDisposableStack()
  const folder = parts.use(new TemporaryFolder())
  parts.use(
    await startAgent(folder.path, {
      ca: { plugin: 'embedded' },
      identities: [{ id: API, socket: 'api.sock' }],
      sds: { refusedNames },
    }),
  )
  const port = await freePort()
  const ports = new Map([
    [15443, port],
    [19001, await freePort()],
  ])
  const config = await deployed('api', { socket: join(folder.path, 'api.sock'), ports })
  const listener = config['static_resources']?.['listeners']?.[0]
  const tls = listener?.['filter_chains']?.[0]?.['transport_socket']?.['typed_config']?.['common_tls_context']
  const secret =
    part === 'certificate'
      ? tls?.['tls_certificate_sds_secret_configs']?.[0]
      : tls?.['combined_validation_context']?.['validation_context_sds_secret_config']
  assert.ok(secret)
  const sdsConfig = { ...secret['sds_config'], initial_fetch_timeout: initialFetchTimeout }
  Object.assign(secret, { name: 'kubernetes://gateway', sds_config: sdsConfig })
  const envoy = parts.use(await Envoy.start(folder.path, 'gateway', config))
  const all = parts.move()
  return {
    envoy,
    port,
    async counters() {
      const { body } = await get(envoy.adminPort, '/stats?filter=^sds.kubernetes')
      return Object.fromEntries(
        Array.from(body.matchAll(/\.(\w+): (\d+)$/gm), ([, name, value]) => [name, Number(value)]),
      )
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** How a client without a certificate fares. */
async function handshake(port: number): Promise<'refused' | 'served'> {
  const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false })
  socket.on('secureConnect', () => socket.write('GET / HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n'))
  socket.on('error', () => {})
  let answer = ''
  socket.on('data', data => {
    answer += data
  })
  await new Promise(resolve => socket.on('close', resolve))
  return answer === '' ? 'refused' : 'served'
}

test('without resources in the response Envoy waits for its initial_fetch_timeout', { skip: noEnvoy }, async () => {
  await using gateway = await startGateway('omit', 'certificate', '2s')
  await gateway.envoy.live()
  const { init_fetch_timeout: timeouts, update_rejected: rejected } = await gateway.counters()
  assert.deepEqual([timeouts, rejected], [1, 0])
  assert.equal(await handshake(gateway.port), 'refused')
})

for (const part of ['certificate', 'roots'] as const)
  test(`an invalid secret in the place of its ${part} has Envoy continue at once, and its listener lets in nobody`, {
    skip: noEnvoy,
  }, async () => {
    // It would wait without end.
    await using gateway = await startGateway('invalidate', part, '0s')
    await gateway.envoy.live()
    const { init_fetch_timeout: timeouts, update_rejected: rejected } = await gateway.counters()
    assert.deepEqual([timeouts, rejected], [0, 1])
    assert.equal(await handshake(gateway.port), 'refused')
  })

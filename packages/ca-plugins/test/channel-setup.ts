/** A channel to a server that decides each frame, for the tests of the transport. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { ServiceError } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import { GrpcConnection, type UnaryCall } from '../src/transport/grpc-connection.ts'
import { isStatus } from '../src/transport/grpc-status.ts'
import type { Keepalive } from '../src/transport/session-activity.ts'
import { RawGrpcServer, type StreamHandler } from './raw-grpc-server.ts'

export const CALL: Omit<UnaryCall, 'signal'> = {
  path: '/ca.CA/Sign',
  request: Buffer.from('csr'),
  headers: [],
}

interface ChannelSetup {
  readonly server: RawGrpcServer
  readonly channel: GrpcConnection
  readonly clock: FakeClock
  readonly call: (call?: Partial<UnaryCall>) => Promise<Buffer>
}

export async function setUpChannel(
  t: TestContext,
  handle: StreamHandler,
  {
    port,
    settings,
    keepalive,
  }: {
    readonly port?: number
    readonly settings?: { maxConcurrentStreams: number }
    readonly keepalive?: Keepalive
  } = {},
): Promise<ChannelSetup> {
  const server = await RawGrpcServer.start(handle, settings)
  const clock = new FakeClock()
  const target = { host: '127.0.0.1', port: port ?? server.port, serverName: 'ca', plaintext: true, material: {} }
  const channel = new GrpcConnection({ target, clock, keepalive, random: () => 0.5 })
  t.after(async () => {
    channel.close()
    await server[Symbol.asyncDispose]()
  })
  const call = (overrides: Partial<UnaryCall> = {}) => channel.call({ ...CALL, signal: t.signal, ...overrides })
  return { server, channel, clock, call }
}

export async function failureOf(calling: Promise<unknown>): Promise<ServiceError> {
  try {
    await calling
  } catch (error) {
    assert.ok(isStatus(error), String(error))
    return error
  }
  assert.fail('the call succeeded')
}

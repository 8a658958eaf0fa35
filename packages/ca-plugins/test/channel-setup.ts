/** A channel to a server that decides each frame, for the tests of the transport. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { Metadata, type ServiceError } from '@grpc/grpc-js'
import { FakeClock } from '@livery/core/testing'
import type { ChannelCall, Keepalive } from '../src/transport/grpc-channel.ts'
import { isStatus } from '../src/transport/grpc-status.ts'
import { Http2Channel } from '../src/transport/http2-channel.ts'
import { RawGrpcServer, type StreamHandler } from './raw-grpc-server.ts'

export const CALL: ChannelCall = { path: '/ca.CA/Sign', request: Buffer.from('csr'), metadata: new Metadata() }

interface ChannelSetup {
  readonly server: RawGrpcServer
  readonly channel: Http2Channel
  readonly clock: FakeClock
  readonly call: (call?: Partial<ChannelCall>, signal?: AbortSignal) => Promise<Buffer>
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
  const channel = new Http2Channel({ target, clock, keepalive, random: () => 0.5 })
  t.after(async () => {
    channel.close()
    await server[Symbol.asyncDispose]()
  })
  const call = (overrides: Partial<ChannelCall> = {}, signal = t.signal) =>
    channel.send({ ...CALL, ...overrides }, signal)
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

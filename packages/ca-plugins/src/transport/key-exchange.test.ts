/** Which key exchange a connection to a CA has: it is reported, and bounded by the groups of the configuration. */
import assert from 'node:assert/strict'
import { createSecureServer } from 'node:http2'
import { createServer } from 'node:https'
import type { Server } from 'node:net'
import { test } from 'node:test'
import { SystemClock, type TlsMaterial } from '@livery/core/plugin'
import { listening, portOf } from '@livery/test-support'
import { CALL } from '../../test/channel-setup.ts'
import { answer } from '../../test/raw-grpc-server.ts'
import { CertificateAuthority } from '../plugins/embedded/certificate-authority.ts'
import { GrpcConnection } from './grpc-connection.ts'
import { HttpsJson } from './https-json.ts'

const clock = new SystemClock()
const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
const { chain: cert, privateKey: key } = await authority.issueServerCertificate(
  { dnsNames: ['localhost'], ipAddresses: [] },
  3_600,
)
const roots = Buffer.from(authority.trustBundle().join(''))

interface Transport {
  readonly serve: (ecdhCurve: string) => Server
  /** Makes two calls. */
  readonly call: (port: number, material: TlsMaterial) => Promise<void>
}

const TRANSPORTS: Readonly<Record<string, Transport>> = {
  gRPC: {
    serve: ecdhCurve => createSecureServer({ cert, key, ecdhCurve }).on('stream', stream => answer(stream)),
    async call(port, material) {
      const target = { host: '127.0.0.1', port, serverName: 'localhost', plaintext: false, material }
      const channel = new GrpcConnection({ target, clock, random: () => 0 }, {})
      try {
        for (let time = 0; time < 2; time++) await channel.call({ ...CALL, signal: AbortSignal.timeout(10_000) })
      } finally {
        channel.close()
      }
    },
  },
  HTTPS: {
    serve: ecdhCurve => createServer({ cert, key, ecdhCurve }, (_, response) => response.end('{}')),
    async call(port, material) {
      const tls = async () => material
      await using json = new HttpsJson({ address: `https://localhost:${port}`, tls, clock, timeoutMs: 10_000 })
      for (let time = 0; time < 2; time++)
        await json.request({ action: 'ask', path: '', signal: AbortSignal.timeout(10_000) })
    },
  },
}

for (const [name, { serve, call }] of Object.entries(TRANSPORTS))
  test(`${name}: the group of each connection is reported, and no other than the given ones is used`, async () => {
    await using both = await listening(serve('X25519MLKEM768:X25519:P-256'))
    await using old = await listening(serve('X25519:P-256'))
    const groupsOf = async (server: Server, groups?: readonly string[]) => {
      const seen: string[] = []
      const connected = (group: string): void => void seen.push(group)
      await call(portOf(server), { roots, connected, ...(groups && { groups }) })
      return seen
    }
    assert.deepEqual(await groupsOf(both), ['X25519MLKEM768'])
    assert.deepEqual(await groupsOf(old), ['X25519'])
    assert.deepEqual(await groupsOf(both, ['P-256']), ['P-256'])
    await assert.rejects(groupsOf(old, ['X25519MLKEM768']))
  })

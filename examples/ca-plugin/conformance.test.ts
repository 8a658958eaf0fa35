/** Proves the plugin: the kit's CA behind a server that speaks as the real one does. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream'
import { test } from 'node:test'
import { type FakeCA, type RefusalCode, suite } from '@livery/ca-plugins/conformance'
import { plugin } from './index.ts'

/** What the configuration below says, in milliseconds. */
const TIMEOUT = 10_000
const STATUS: Readonly<Record<RefusalCode, number>> = {
  'invalid-csr': 400,
  unauthenticated: 401,
  denied: 403,
  'ttl-too-long': 422,
  'rate-limited': 429,
  unavailable: 503,
}

suite({
  test,
  plugin,
  timeoutMs: TIMEOUT,
  async create({ ca, context, after }) {
    const server = createServer(await ca.serverCertificate(), (request, response) => void serve(ca, request, response))
    // Node's 5 s would end idle connections in the plugin's place.
    server.keepAliveTimeout = 75_000
    await once(server.listen(0, '127.0.0.1'), 'listening')
    after(() => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(resolve))
    })
    const tls = { roots: Buffer.from(ca.trustBundle().join('')) }
    const url = `https://localhost:${(server.address() as AddressInfo).port}`
    return plugin.create({ ...context, tls: async () => tls }, { url, timeout: TIMEOUT })
  },
})

async function serve(ca: FakeCA, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = Buffer.concat(await request.toArray()).toString()
  if (request.url === '/roots') return void response.end(JSON.stringify({ roots: ca.trustBundle() }))
  const token = request.headers.authorization?.replace('Bearer ', '')
  const answer = await ca.answer({ ...JSON.parse(body), ...(token !== undefined && { token }) })
  switch (answer.kind) {
    case 'issued': {
      const text = JSON.stringify({ chain: answer.chain, roots: answer.roots })
      return void response.end(answer.truncated ? text.slice(0, text.length / 2) : text)
    }
    case 'refused':
      if (answer.retryAfterMs) response.setHeader('retry-after', answer.retryAfterMs / 1000)
      response.statusCode = STATUS[answer.code]
      return void response.end(answer.message)
    case 'garbage':
      return void response.end(answer.text)
    case 'endless':
      return void pipeline(answer.pieces, response, () => {})
    default:
      request.socket.destroy()
  }
}

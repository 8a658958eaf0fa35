/** The conformance kit on the example plugin as the agent runs it: in a process. */
import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import { pipeline } from 'node:stream'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { type FakeCA, type RefusalCode, suite } from '@livery/ca-plugins/conformance'
import { listening, portOf } from '@livery/test-support'
import { loadIsolatedCAPlugin } from '../src/plugin/isolated-plugin.ts'

const specifier = fileURLToPath(new URL('../../../examples/ca-plugin/index.ts', import.meta.url))
const STATUS: Readonly<Record<RefusalCode, number>> = {
  'invalid-csr': 400,
  unauthenticated: 401,
  denied: 403,
  'ttl-too-long': 422,
  'rate-limited': 429,
  unavailable: 503,
}

const plugin = await loadIsolatedCAPlugin({ kind: 'ca', specifier, parent: specifier }, {})
assert.ok(!('faults' in plugin), 'the example is not a plugin')

suite({
  test,
  capabilities: plugin.capabilities,
  async create({ ca, context, after }) {
    const server = createServer(await ca.serverCertificate(), (request, response) => void serve(ca, request, response))
    await listening(server)
    after(() => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(resolve))
    })
    const tls = { roots: Buffer.from(ca.trustBundle().join('')) }
    const url = `https://localhost:${portOf(server)}`
    return await plugin.create({ ...context, tls: async () => tls }, { url, timeout: 10_000 })
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

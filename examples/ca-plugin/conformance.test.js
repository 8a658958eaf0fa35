/** Proves the plugin: the kit's CA behind a server that speaks as the real one does. */
import { once } from 'node:events'
import { createServer } from 'node:https'
import { test } from 'node:test'
import { suite } from '@livery/ca-plugins/conformance'
import { plugin } from './index.js'

const STATUS = {
  'invalid-csr': 400,
  unauthenticated: 401,
  denied: 403,
  'ttl-too-long': 422,
  'rate-limited': 429,
  unavailable: 503,
}

suite({
  test,
  capabilities: plugin.capabilities,
  async create({ ca, context, after }) {
    const server = createServer(await ca.serverCertificate(), (request, response) => serve(ca, request, response))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    after(() => {
      server.closeAllConnections()
      return new Promise(resolve => server.close(resolve))
    })
    const tls = { roots: Buffer.from(ca.trustBundle().join('')) }
    const url = `https://localhost:${server.address().port}`
    return plugin.create({ ...context, tls: async () => tls }, { url })
  },
})

async function serve(ca, request, response) {
  const body = Buffer.concat(await request.toArray()).toString()
  if (request.url === '/roots') return response.end(JSON.stringify({ roots: ca.trustBundle() }))
  const token = request.headers.authorization?.replace('Bearer ', '')
  const answer = await ca.answer({ ...JSON.parse(body), token })
  if (answer.kind === 'reset') return request.socket.destroy()
  if (answer.kind === 'garbage') return response.end(answer.text)
  if (answer.kind === 'refused') {
    if (answer.retryAfterMs) response.setHeader('retry-after', answer.retryAfterMs / 1000)
    response.statusCode = STATUS[answer.code]
    return response.end(answer.message)
  }
  const text = JSON.stringify({ chain: answer.chain, roots: answer.roots })
  response.end(answer.truncated ? text.slice(0, text.length / 2) : text)
}

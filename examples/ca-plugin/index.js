/** A CA plugin for Livery: a CA that takes `POST /sign` with a CSR as JSON over HTTPS, and answers with a chain. */
import { Agent, request as send } from 'node:https'
import { CAError, defineCAPlugin, splitCertificates, untilAborted } from '@livery/core'

const CODES = { 400: 'invalid-csr', 401: 'unauthenticated', 403: 'denied', 422: 'ttl-too-long', 429: 'rate-limited' }

export const plugin = defineCAPlugin({
  apiVersion: 1,
  name: 'example',
  capabilities: { roots: 'poll', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256', 'ecdsa-p384', 'rsa-2048'] },
  needs: ['tls', 'credentials'],
  options: { url: { type: 'string', required: true, description: 'the CA, such as https://ca.example:8443' } },
  create: (context, { url }) => new ExampleClient(context, url),
})

class ExampleClient {
  #agent = new Agent({ keepAlive: true })
  #closing = new AbortController()

  constructor(context, url) {
    this.context = context
    this.url = url
  }

  async issue({ csr, ttlSeconds, tokenFile, signal: own }) {
    const signal = AbortSignal.any([own, this.#closing.signal])
    signal.throwIfAborted()
    const { pem } = await untilAborted(csr(), signal)
    const { token } = await this.context.credentials.get({ ...(tokenFile && { tokenFile }), signal })
    const answer = await this.#call('POST', '/sign', signal, { csr: pem, ttlSeconds }, token)
    const roots = certificates(answer?.roots)
    return { chain: certificates(answer?.chain?.filter?.(pem => !roots.includes(pem))), roots }
  }

  async trustBundle({ signal }) {
    return certificates((await this.#call('GET', '/roots', AbortSignal.any([signal, this.#closing.signal])))?.roots)
  }

  async [Symbol.asyncDispose]() {
    this.#closing.abort(
      new CAError('unavailable', `Cannot ask ${this.url}: its client is closed.`, { retryable: false }),
    )
    this.#agent.destroy()
  }

  async #call(method, path, signal, body, token) {
    signal.throwIfAborted()
    const { roots: ca } = (await this.context.tls?.()) ?? {}
    const headers = { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) }
    const { promise, resolve, reject } = Promise.withResolvers()
    const call = send(new URL(path, this.url), { method, ca, headers, signal, agent: this.#agent }, resolve)
    call.on('error', reject).end(body && JSON.stringify(body))
    try {
      const response = await promise
      const text = Buffer.concat(await response.toArray()).toString()
      if (response.statusCode === 200) return JSON.parse(text)
      // Without the text of the CA: it may quote the token.
      const retryAfterMs = Number(response.headers['retry-after']) * 1000 || undefined
      const code = CODES[response.statusCode] ?? 'unavailable'
      throw new CAError(code, `${this.url} refused with HTTP ${response.statusCode}. See its log.`, { retryAfterMs })
    } catch (cause) {
      signal.throwIfAborted()
      if (cause instanceof CAError) throw cause
      if (cause instanceof SyntaxError) throw new CAError('bad-response', `${this.url} sent no JSON. Check url.`)
      throw new CAError('unavailable', `Cannot ask ${this.url}: ${cause.message}. Check url and rootCert.`, { cause })
    }
  }
}

function certificates(list) {
  const pems = Array.isArray(list) ? splitCertificates(list.join('\n')) : []
  if (pems.length === 0) throw new CAError('bad-response', 'The CA answered without certificates. Check url.')
  return pems
}

/** Stand-ins for services that give tokens over HTTP, which check what they get; and tokens for them. */
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { TestContext } from 'node:test'
import { listening, portOf } from '@livery/test-support'

interface TokenRequest {
  readonly method: string
  readonly url: URL
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export type TokenAnswer =
  | { readonly status?: number; readonly headers?: Readonly<Record<string, string>>; readonly body?: string }
  /** Never comes. */
  | 'hang'
  /** The connection is reset. */
  | 'reset'

interface TokenServer {
  readonly address: string
  readonly requests: readonly TokenRequest[]
  /** Its answer from now on. */
  answer: (request: TokenRequest) => TokenAnswer
  /** Resolves with the next request that arrives. */
  nextRequest(): Promise<TokenRequest>
}

export async function startTokenServer(
  t: TestContext,
  answer: (request: TokenRequest) => TokenAnswer,
): Promise<TokenServer> {
  const requests: TokenRequest[] = []
  const waiting: ((request: TokenRequest) => void)[] = []
  const http = createServer(async (incoming, response) => {
    const request = await readRequest(incoming)
    requests.push(request)
    const answered = server.answer(request)
    if (answered === 'reset') incoming.socket.resetAndDestroy()
    else if (answered !== 'hang') response.writeHead(answered.status ?? 200, answered.headers).end(answered.body)
    for (const resolve of waiting.splice(0)) resolve(request)
  })
  await listening(http)
  t.after(() => close(http))
  const address = `http://127.0.0.1:${portOf(http)}`
  const nextRequest = () => new Promise<TokenRequest>(resolve => waiting.push(resolve))
  const server: TokenServer = { address, requests, answer, nextRequest }
  return server
}

async function readRequest(incoming: IncomingMessage): Promise<TokenRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk)
  const url = new URL(incoming.url ?? '', 'http://server')
  return { method: incoming.method ?? '', url, headers: incoming.headers, body: Buffer.concat(chunks).toString() }
}

async function close(http: Server): Promise<void> {
  const closed = new Promise(resolve => http.close(resolve))
  http.closeAllConnections()
  await closed
}

/** The metadata server of Google Cloud: `issue` gives the body for a request that it accepts. */
export function metadataAnswers(
  issue: (name: 'identity' | 'token', audience: string | null) => string,
): (request: TokenRequest) => TokenAnswer {
  return ({ method, url, headers }) => {
    if (method !== 'GET' || headers['metadata-flavor'] !== 'Google')
      return { status: 403, body: 'Missing Metadata-Flavor:Google header.' }
    const [, account, name] =
      /^\/computeMetadata\/v1\/instance\/service-accounts\/([^/]+)\/(identity|token)$/.exec(url.pathname) ?? []
    const flavor = { 'metadata-flavor': 'Google' }
    if (account !== 'default' || (name !== 'identity' && name !== 'token'))
      return { status: 404, headers: flavor, body: 'Not Found' }
    const audience = url.searchParams.get('audience')
    if (name === 'identity' && (audience === null || url.searchParams.get('format') !== 'full'))
      return { status: 400, headers: flavor, body: 'non-empty audience parameter required' }
    return { headers: flavor, body: issue(name, audience) }
  }
}

/** A security token service: `issue` gives the JSON for a request that it accepts, by its form. */
export function stsAnswers(
  issue: (form: URLSearchParams) => object,
  isGood: (subjectToken: string) => boolean = () => true,
): (request: TokenRequest) => TokenAnswer {
  return ({ method, headers, body }) => {
    const form = new URLSearchParams(body)
    const isForm = headers['content-type'] === 'application/x-www-form-urlencoded'
    const isExchange = form.get('grant_type') === 'urn:ietf:params:oauth:grant-type:token-exchange'
    const subjectToken = form.get('subject_token') ?? ''
    if (method !== 'POST' || !isForm || !isExchange || subjectToken === '' || !form.has('subject_token_type'))
      return { status: 400, body: JSON.stringify({ error: 'invalid_request' }) }
    if (!isGood(subjectToken))
      return {
        status: 400,
        body: JSON.stringify({ error: 'invalid_grant', error_description: `bad token ${subjectToken}` }),
      }
    return { headers: { 'content-type': 'application/json' }, body: JSON.stringify(issue(form)) }
  }
}

/** An unsigned JWT; `exp` in seconds since the epoch. */
export function jwt(claims: { readonly exp?: unknown; readonly sub?: string }): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  return `${part({ alg: 'RS256', typ: 'JWT' })}.${part(claims)}.${Buffer.from('signature').toString('base64url')}`
}

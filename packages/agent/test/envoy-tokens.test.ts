/** A real Envoy in a pod that puts the token of its pod on requests, for an upstream that verifies it: the file of deploy/envoy. */
import assert from 'node:assert/strict'
import { generateKeyPairSync, sign, verify } from 'node:crypto'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import { freePort, listening, portOf } from '@livery/test-support'
import { deployed, Envoy, get, noEnvoySince, until } from './envoy-bench.ts'
import { inGroup } from './launchers.ts'
import { podResource } from './pod-api-server.ts'
import { noSharedNode, startNode } from './shared-node.ts'

const AUDIENCE = 'api.example'

interface Claims {
  readonly jti: string
  readonly sub: string
  readonly aud: readonly string[]
  readonly exp: number
  readonly 'kubernetes.io': { readonly pod: { readonly uid: string } }
}

/** The keys with which an API server signs (RFC 7515, ES256). */
function tokenKeys() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  return {
    sign(claims: object): string {
      const signed = `${encode({ alg: 'ES256' })}.${encode(claims)}`
      const signature = sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' })
      return `${signed}.${signature.toString('base64url')}`
    },
    /** The claims of a token that is good for the upstream now. */
    verify(header: string | undefined): Claims | undefined {
      const [, head = '', body = '', signature = ''] = /^Bearer ([\w-]+)\.([\w-]+)\.([\w-]+)$/.exec(header ?? '') ?? []
      const key = { key: publicKey, dsaEncoding: 'ieee-p1363' } as const
      if (!verify('sha256', Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url'))) return undefined
      const claims: Claims = JSON.parse(Buffer.from(body, 'base64url').toString())
      return claims.aud.includes(AUDIENCE) && claims.exp * 1_000 > Date.now() ? claims : undefined
    },
  }
}

/** Answers with the claims of the token that a request has. */
async function startUpstream(t: TestContext, verifyHeader: (header: string | undefined) => Claims | undefined) {
  const server = createServer(({ headers }, response) => {
    const claims = verifyHeader(headers.authorization)
    response.writeHead(claims ? 200 : 401).end(JSON.stringify(claims ?? {}))
  })
  await listening(server, 0)
  t.after(() => server.close())
  return portOf(server)
}

test('an Envoy sends the token of its own pod, signed by the API server for that audience, renewed and ended with the pod', {
  skip: noEnvoySince(37) || noSharedNode,
}, async t => {
  const keys = tokenKeys()
  await using node = await startNode({}, [`token://${AUDIENCE}`])
  const { api, agent, socket, cwd } = node
  api.signToken = claims => keys.sign(claims)
  // Renewed after three seconds.
  api.maxTokenSeconds = 4
  const web = podResource({ name: 'web' })
  api.put(web)
  const upstream = await startUpstream(t, header => keys.verify(header))
  const [admin, outbound] = [await freePort(), await freePort()]
  const ports = new Map([
    [9904, admin],
    [15001, outbound],
    [8080, upstream],
  ])
  const config = await deployed('token', { socket, ports })
  await using envoy = await Envoy.start(cwd, 'token', config, inGroup(node.groupOf(web.metadata.uid)))
  await envoy.live()
  const seen = new Set<string>()
  const look = async (): Promise<Claims> => {
    const { status, body } = await get(outbound, '/')
    assert.equal(status, 200, body)
    const claims: Claims = JSON.parse(body)
    seen.add(claims.jti)
    return claims
  }
  const first = await look()
  assert.equal(first.sub, 'system:serviceaccount:default:web')
  assert.equal(first['kubernetes.io'].pod.uid, web.metadata.uid)
  // The second one comes on the same stream, and no request was refused meanwhile.
  await until('Envoy has the next token', async () => {
    await look()
    return seen.size > 1 || undefined
  })

  const address = await agent.admin()
  const dump = await (await fetch(`http://${address}/config_dump`)).text()
  assert.ok(dump.includes(`token://${AUDIENCE}~${web.metadata.uid}`))
  api.delete(web)
  await agent.line(/"event":"pod-removed"/)
  await until('nobody has the token of the pod', async () => {
    const served = await (await fetch(`http://${address}/config_dump`)).text()
    return !served.includes(`~${web.metadata.uid}`) || undefined
  })
  assert.doesNotMatch(agent.stderr + dump + envoy.output, /eyJ/)
})

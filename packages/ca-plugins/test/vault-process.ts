/** A real Vault or OpenBao as a process (in memory), where `LIVERY_VAULT` names its binary: `vault` or `bao`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { SystemClock } from '@livery/core/plugin'
import { freePort, listening, portOf, TemporaryFolder } from '@livery/test-support'
import { SignJWT } from 'jose'
import { CertificateAuthority } from '../src/plugins/embedded/index.ts'
import { provisionerPair } from './step-ca-stand-in.ts'

const BINARY = process.env['LIVERY_VAULT']

/** For `test(name, { skip }, …)`. */
export const noVault =
  BINARY === undefined || BINARY === '' ? 'no Vault: LIVERY_VAULT names no binary of Vault or OpenBao' : false

const ROOT_TOKEN = 'root'

export interface VaultServer extends AsyncDisposable {
  /** With TLS. */
  readonly address: string
  /** The root that verifies the server's certificate. */
  readonly rootPem: string
  readonly rootToken: string
  /** Calls its API as root, below `/v1/`; resolves with the JSON of the answer, if there is any. */
  call(method: string, path: string, body?: object, token?: string): Promise<VaultReply>
  /** A token with a policy that may sign with `role` only. */
  signer(role: string, ttl: string): Promise<string>
}

interface VaultReply {
  readonly data?: Readonly<Record<string, string>>
  readonly auth?: { readonly client_token: string }
}

/** With a root in `pki`, and the role `workload` for `cluster.local` of at most an hour. */
export async function startVaultServer(): Promise<VaultServer> {
  if (BINARY === undefined) throw new Error(String(noVault))
  const stack = new AsyncDisposableStack()
  const folder = stack.use(new TemporaryFolder()).path
  const { config, port, rootPem } = await writeConfiguration(folder)
  const plain = await freePort()
  const args = ['server', '-dev', `-dev-root-token-id=${ROOT_TOKEN}`, `-dev-listen-address=127.0.0.1:${plain}`]
  const env = { ...process.env, HOME: folder }
  const child = spawn(BINARY, [...args, '-dev-no-store-token', `-config=${config}`], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  stack.defer(async () => {
    const exited = child.exitCode === null ? once(child, 'exit') : undefined
    child.kill('SIGKILL')
    await exited
  })
  await started(child)
  const call = async (method: string, path: string, body?: object, token = ROOT_TOKEN): Promise<VaultReply> => {
    const response = await fetch(`http://127.0.0.1:${plain}/v1/${path}`, {
      method,
      headers: { 'x-vault-token': token },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return text === '' ? {} : JSON.parse(text)
  }
  await call('POST', 'sys/mounts/pki', { type: 'pki', config: { max_lease_ttl: '87600h' } })
  await call('POST', 'pki/root/generate/internal', { common_name: 'Root 1', ttl: '87600h', key_type: 'ec' })
  await call('POST', 'pki/roles/workload', roleOf('1h'))
  return {
    address: `https://localhost:${port}`,
    rootPem,
    rootToken: ROOT_TOKEN,
    call,
    async signer(role, ttl) {
      const policy = `path "pki/sign/${role}" { capabilities = ["update"] }`
      await call('PUT', `sys/policies/acl/sign-${role}`, { policy })
      const { auth } = await call('POST', 'auth/token/create', { policies: [`sign-${role}`], ttl })
      return auth?.client_token ?? ''
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

export function roleOf(maxTtl: string, more: object = {}): object {
  const uris = 'spiffe://cluster.local/*'
  return { allowed_uri_sans: uris, require_cn: false, key_type: 'any', max_ttl: maxTtl, ...more }
}

async function writeConfiguration(folder: string) {
  using clock = new SystemClock()
  const authority = await CertificateAuthority.open({ clock, trustDomain: 'cluster.local' })
  const { chain, privateKey } = await authority.issueServerCertificate(
    { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] },
    86_400,
  )
  const [certFile, keyFile] = [join(folder, 'server.pem'), join(folder, 'server.key')]
  await writeFile(certFile, chain)
  await writeFile(keyFile, privateKey, { mode: 0o600 })
  const port = await freePort()
  const tcp = { address: `127.0.0.1:${port}`, tls_cert_file: certFile, tls_key_file: keyFile }
  const config = join(folder, 'server.json')
  await writeFile(config, JSON.stringify({ listener: [{ tcp }], disable_mlock: true }))
  return { config, port, rootPem: authority.trustBundle().join('') }
}

async function started(child: ReturnType<typeof spawn>): Promise<void> {
  const ready = Promise.withResolvers<void>()
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    if (stream)
      createInterface({ input: stream }).on('line', line => {
        output += `${line}\n`
        if (line.startsWith('Root Token:')) ready.resolve()
      })
  child.on('error', ready.reject)
  child.on('exit', () => ready.reject(new Error(`the server ended: ${output}`)))
  await ready.promise
}

interface KubernetesAuth extends AsyncDisposable {
  /** A token of the service account `agent` in the namespace `livery`. */
  readonly jwt: string
}

/** Enables `auth/kubernetes` with the role `livery`, in front of a stand-in of the API that reviews tokens. */
export async function enableKubernetes(server: VaultServer, ttl: string): Promise<KubernetesAuth> {
  const { privateJwk } = await provisionerPair()
  const account = { namespace: 'livery', serviceaccount: { name: 'agent', uid: 'uid-1' } }
  const jwt = await new SignJWT({ 'kubernetes.io': account, sub: 'system:serviceaccount:livery:agent' })
    .setProtectedHeader({ alg: 'ES256' })
    .setIssuer('https://kubernetes.default.svc')
    .setIssuedAt('-1m')
    .setNotBefore('-1m')
    .setExpirationTime('1h')
    .sign(privateJwk)
  const api = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const { spec } = JSON.parse(Buffer.concat(chunks).toString())
    const user = { username: 'system:serviceaccount:livery:agent', uid: 'uid-1', groups: [] }
    const status = spec.token === jwt ? { authenticated: true, user } : { authenticated: false, error: 'no such token' }
    response.setHeader('content-type', 'application/json')
    response.statusCode = 201
    response.end(JSON.stringify({ kind: 'TokenReview', apiVersion: 'authentication.k8s.io/v1', status }))
  })
  await listening(api)
  await using stack = new AsyncDisposableStack()
  stack.defer(async () => {
    api.closeAllConnections()
    await new Promise(resolve => api.close(resolve))
  })
  const port = portOf(api)
  await server.call('POST', 'sys/auth/kubernetes', { type: 'kubernetes' })
  await server.call('POST', 'auth/kubernetes/config', {
    kubernetes_host: `http://127.0.0.1:${port}`,
    token_reviewer_jwt: jwt,
    disable_local_ca_jwt: true,
    kubernetes_ca_cert: server.rootPem,
  })
  await server.call('PUT', 'sys/policies/acl/workload', {
    policy: 'path "pki/sign/workload" { capabilities = ["update"] }',
  })
  await server.call('POST', 'auth/kubernetes/role/livery', {
    bound_service_account_names: ['agent'],
    bound_service_account_namespaces: ['livery'],
    token_policies: ['workload'],
    token_ttl: ttl,
  })
  const done = stack.move()
  return { jwt, [Symbol.asyncDispose]: () => done.disposeAsync() }
}

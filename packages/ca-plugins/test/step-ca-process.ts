/** A real step-ca as a process, where `LIVERY_STEP_CA` names its binary. */
import 'reflect-metadata'
import { spawn } from 'node:child_process'
import { KeyObject, webcrypto } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort, listening, portOf, TemporaryFolder } from '@livery/test-support'
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  type X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509'
import type { JWK } from 'jose'

const BINARY = process.env['LIVERY_STEP_CA']

/** For `test(name, { skip }, …)`. */
export const noStepCa =
  BINARY === undefined || BINARY === ''
    ? 'no step-ca: LIVERY_STEP_CA names no binary (go install github.com/smallstep/certificates/cmd/step-ca@latest makes one)'
    : false

/** The identity as the only name: no common name, which the default template copies it to. */
const SPIFFE_TEMPLATE =
  '{"sans": {{ toJson .SANs }}, "keyUsage": ["digitalSignature"], "extKeyUsage": ["serverAuth", "clientAuth"]}'

interface StepCaServerOptions {
  /** JWK provisioners by name. */
  readonly keys?: Readonly<Record<string, JWK>>
  /** An OIDC provisioner: it takes the identity from the CSR. */
  readonly oidc?: { readonly clientId: string; readonly publicJwk: JWK }
  /** Default: {@link SPIFFE_TEMPLATE}. */
  readonly template?: string
  /** Of every provisioner; default 5 s and 1 h. */
  readonly claims?: { readonly min: string; readonly max: string }
}

export interface StepCaServer extends AsyncDisposable {
  readonly address: string
  readonly rootFile: string
  readonly rootPem: string
  /** The `iss` that the OIDC provisioner requires. */
  readonly issuer: string
  freeze(): void
  thaw(): void
  /** Ends the process, and starts it again at the same address. */
  restart(): Promise<void>
}

export async function startStepCaServer(options: StepCaServerOptions): Promise<StepCaServer> {
  if (noStepCa !== false || BINARY === undefined) throw new Error(String(noStepCa))
  const stack = new AsyncDisposableStack()
  const folder = stack.use(new TemporaryFolder()).path
  const { root, intermediate, intermediateKey } = await createAuthority()
  const rootPem = `${root.toString('pem')}\n`
  const rootFile = join(folder, 'root.pem')
  await writeFile(rootFile, rootPem)
  await writeFile(join(folder, 'intermediate.pem'), intermediate.toString('pem'))
  await writeFile(join(folder, 'intermediate.key'), intermediateKey, { mode: 0o600 })
  const issuer = await startIssuer(stack, options.oidc?.publicJwk)
  const port = await freePort()
  const file = join(folder, 'ca.json')
  await writeFile(file, JSON.stringify(configuration(folder, port, issuer, options)))
  let server = await startProcess(BINARY, file)
  stack.defer(() => stop(server))
  return {
    address: `https://localhost:${port}`,
    rootFile,
    rootPem,
    issuer,
    freeze: () => void server.kill('SIGSTOP'),
    thaw: () => void server.kill('SIGCONT'),
    async restart() {
      await stop(server)
      server = await startProcess(BINARY, file)
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

function configuration(folder: string, port: number, issuer: string, options: StepCaServerOptions): object {
  const { keys = {}, oidc, template = SPIFFE_TEMPLATE, claims: { min, max } = { min: '5s', max: '1h' } } = options
  const claims = { minTLSCertDuration: min, maxTLSCertDuration: max, defaultTLSCertDuration: max }
  const fromCsr = SPIFFE_TEMPLATE.replace('.SANs', '.Insecure.CR.URIs').replace('"sans"', '"uris"')
  const jwk = Object.entries(keys).map(([name, key]) => ({
    type: 'JWK',
    name,
    key,
    claims,
    options: { x509: { template } },
  }))
  const oidcProvisioner = oidc && {
    type: 'OIDC',
    name: 'oidc',
    clientID: oidc.clientId,
    clientSecret: '',
    configurationEndpoint: `${issuer}/.well-known/openid-configuration`,
    claims,
    options: { x509: { template: fromCsr } },
  }
  return {
    root: join(folder, 'root.pem'),
    crt: join(folder, 'intermediate.pem'),
    key: join(folder, 'intermediate.key'),
    address: `127.0.0.1:${port}`,
    dnsNames: ['localhost'],
    logger: { format: 'text' },
    authority: {
      policy: { x509: { allow: { uri: ['cluster.local'] } } },
      provisioners: oidcProvisioner ? [...jwk, oidcProvisioner] : jwk,
      backdate: '1m0s',
    },
  }
}

async function startProcess(binary: string, file: string) {
  const child = spawn(binary, [file], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ready = Promise.withResolvers<void>()
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on('line', line => {
      output += `${line}\n`
      if (line.includes('Serving HTTPS on')) ready.resolve()
    })
  child.on('error', ready.reject)
  child.on('exit', () => ready.reject(new Error(`step-ca ended: ${output}`)))
  await ready.promise
  return child
}

async function stop(child: ReturnType<typeof spawn>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}

/** Serves the documents that an OIDC provisioner reads when it starts. */
async function startIssuer(stack: AsyncDisposableStack, key: JWK | undefined): Promise<string> {
  const server = createServer((request, response) => {
    const keys = { keys: key ? [key] : [] }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(request.url === '/jwks' ? keys : { issuer: address, jwks_uri: `${address}/jwks` }))
  })
  await listening(server)
  const address = `http://127.0.0.1:${portOf(server)}`
  stack.defer(async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  })
  return address
}

async function createAuthority() {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const newKeys = () => webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const [rootKeys, keys] = await Promise.all([newKeys(), newKeys()])
  const usages = new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true)
  const root: X509Certificate = await X509CertificateGenerator.createSelfSigned({
    name: 'CN=Root of a test',
    keys: rootKeys,
    signingAlgorithm: algorithm,
    extensions: [new BasicConstraintsExtension(true, 1, true), usages],
  })
  const intermediate = await X509CertificateGenerator.create({
    subject: 'CN=Intermediate of a test',
    issuer: root.subject,
    publicKey: keys.publicKey,
    signingKey: rootKeys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [new BasicConstraintsExtension(true, 0, true), usages],
  })
  const intermediateKey = KeyObject.from(keys.privateKey).export({ type: 'pkcs8', format: 'pem' }).toString()
  return { root, intermediate, intermediateKey }
}

/** A CA server and a `citadel` client for it, for the tests of that plugin. */
import assert from 'node:assert/strict'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type CAClient, type CAContext, CAError, type CAErrorCode, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { tokenFile } from '../src/credentials/token-file.ts'
import type { CitadelConfig } from '../src/plugins/citadel/config.ts'
import { citadel } from '../src/plugins/citadel/index.ts'
import { FaultyCaServer, type FaultyCaServerOptions } from '../src/testing/faulty-ca-server.ts'
import { pluginContext, type RecordingContext } from '../src/testing/plugin-context.ts'
import { workloadRequest } from '../src/testing/workload-request.ts'
import { connectionTls } from '../src/transport/connection-tls.ts'

export const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
export const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'

/** The plugin's keys, and those under `ca:` that the agent keeps for itself. */
interface CitadelSettings extends Partial<CitadelConfig> {
  readonly rootCert?: string
  readonly clientCertificate?: { readonly certFile: string; readonly keyFile: string }
  readonly tokenFile?: string
}

interface CitadelSetup {
  readonly server: FaultyCaServer
  readonly client: CAClient
  readonly clock: FakeClock
  readonly context: RecordingContext
  /** Has `root.pem` of the server, and `token` with `token-1`. */
  readonly directory: string
}

/** The client trusts the server by a root file and has a token, unless `config` says otherwise. */
export async function setUpCitadel(
  t: TestContext,
  {
    config = () => ({}),
    server: serverOptions = {},
  }: { readonly config?: (directory: string) => CitadelSettings; readonly server?: FaultyCaServerOptions } = {},
): Promise<CitadelSetup> {
  const server = await FaultyCaServer.start(serverOptions)
  t.after(() => server[Symbol.asyncDispose]())
  const directory = temporaryFolder(t)
  await replaceFile(join(directory, 'root.pem'), server.authority.trustBundle().join(''))
  await replaceFile(join(directory, 'token'), 'token-1\n')
  const files = { rootCert: join(directory, 'root.pem'), tokenFile: join(directory, 'token') }
  const clock = new FakeClock()
  const context = pluginContext({ clock })
  const client = await createCitadel({ address: server.address, ...files, ...config(directory) }, context)
  t.after(() => client[Symbol.asyncDispose]())
  return { server, client, clock, context, directory }
}

/** The client that the agent would make of these settings. */
export async function createCitadel(
  { rootCert, clientCertificate, tokenFile: file, ...config }: CitadelSettings & { readonly address: string },
  context: CAContext,
): Promise<CAClient> {
  const connection = { ...(rootCert !== undefined && { rootCert }), ...(clientCertificate && { clientCertificate }) }
  const credentials = await tokenFile.create({ ...context, ...(file !== undefined && { tokenFile: file }) }, {})
  return citadel.create(
    {
      ...context,
      credentials,
      ...(Object.keys(connection).length > 0 && { tls: connectionTls({ ...connection, log: context.log }) }),
    },
    { impersonate: false, ...config },
  )
}

/** By rename, as a file should be rotated. */
export async function replaceFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text, { mode: 0o600 })
  await rename(`${path}.new`, path)
}

/** A certificate for {@link WEB} by the server's CA, as `cert.pem` and `key.pem`. */
export async function provisionClientCertificate({ server, directory }: CitadelSetup): Promise<void> {
  const request = await workloadRequest(WEB)
  const { chain } = await server.authority.sign({ identity: WEB, csr: request.csrDer, ttlSeconds: 3600 })
  await replaceFile(join(directory, 'key.pem'), request.privateKeyPem)
  await replaceFile(join(directory, 'cert.pem'), chain.join(''))
}

/** For `assert.rejects`: a {@link CAError} of this code whose message matches. */
export function isCAError(code: CAErrorCode, message: RegExp = /./) {
  return (error: unknown): true => {
    assert.ok(error instanceof CAError, String(error))
    assert.equal(error.code, code, error.message)
    assert.match(error.message, message)
    return true
  }
}

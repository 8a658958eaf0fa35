/** A server of secrets in files: real files in a temporary folder, real certificates, and a stream that gets them. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { plainKeyVault, type SecretEvent } from '@livery/core'
import { FileSecrets, type FileSecretsOptions } from '@livery/core/file-secrets'
import { type Clock, SystemClock } from '@livery/core/plugin'
import { type IssuedPair, PairIssuer } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import type { Secret } from '../src/gen/envoy/extensions/transport_sockets/tls/v3/secret.ts'
import type { SdsServerOptions } from '../src/sds-server.ts'
import type { SocketConfig } from '../src/sds-socket.ts'
import { MemorySource } from './memory-source.ts'
import { type RunningServer, startServer, WEB } from './running-server.ts'
import { type SotwClientStream, secretsOf } from './sds-client.ts'

interface FileServer {
  readonly server: RunningServer
  /** The only folder in which files may be named. */
  readonly folder: string
  readonly files: FileSecrets
  /** The reports of the files, oldest first. */
  readonly events: SecretEvent[]
  readonly issuer: PairIssuer
  issue(): Promise<IssuedPair>
}

/** The real clock, unless `clock` is given: what happens to files is an event of the kernel. */
export async function startFileServer(
  t: TestContext,
  options: Partial<FileSecretsOptions> = {},
  socket: Partial<SocketConfig> = {},
  serverOptions: Partial<SdsServerOptions> = {},
): Promise<FileServer> {
  const clock = options.clock ?? closedAfter(t, new SystemClock())
  const folder = join(temporaryFolder(t), 'certs')
  const events: SecretEvent[] = []
  const files = new FileSecrets({
    clock,
    vault: plainKeyVault,
    folders: [folder],
    expired: 'withhold',
    onWatchError: error => assert.fail(String(error)),
    report: (_, event) => events.push(event),
    ...options,
  })
  const source = await MemorySource.create(WEB)
  source.files = files
  const server = await startServer(
    { allow: [WEB, `file-cert:${folder}/**`, `file-root:${folder}/**`], ...socket },
    { ...serverOptions, source },
  )
  t.after(() => server[Symbol.asyncDispose]())
  t.after(() => files[Symbol.dispose]())
  const issuer = await PairIssuer.create(clock)
  return { server, folder, files, events, issuer, issue: () => issuer.issue(WEB) }
}

function closedAfter<T extends Clock & Disposable>(t: TestContext, clock: T): T {
  t.after(() => clock[Symbol.dispose]())
  return clock
}

/** A stream that has asked for one name, and accepts whatever arrives. */
export class FileStream {
  readonly #stream: SotwClientStream
  readonly #name: string

  constructor(server: RunningServer, name: string) {
    this.#name = name
    this.#stream = server.connect().sotw()
    this.#stream.ask(name)
  }

  /** The secret of the next response, whole: a key of the leaf, where it has one. */
  async next(): Promise<Secret> {
    const response = await this.#stream.next()
    this.#stream.ack(response, this.#name)
    const secret = secretsOf(response).get(this.#name)
    assert.ok(secret, 'the response has no secret')
    if (secret.type?.$case === 'tlsCertificate') checkPair(secret.type.value)
    return secret
  }

  /** The very next response has exactly this pair: none was pushed in between. */
  async expect({ chain }: IssuedPair): Promise<void> {
    assert.equal(await this.chain(), chain.join(''))
  }

  /** The chain in the next response. */
  async chain(): Promise<string> {
    const { type } = await this.next()
    assert.ok(type?.$case === 'tlsCertificate')
    return textOf(type.value.certificateChain)
  }

  end(): void {
    this.#stream.end()
  }
}

type TlsCertificate = Extract<Secret['type'], { $case: 'tlsCertificate' }>['value']

function checkPair({ certificateChain, privateKey }: TlsCertificate): void {
  const leaf = new X509Certificate(textOf(certificateChain))
  assert.ok(leaf.checkPrivateKey(createPrivateKey(textOf(privateKey))), "a key that is not the leaf's")
}

export function textOf(source: { readonly inlineBytes?: Uint8Array | undefined } | undefined): string {
  return Buffer.from(source?.inlineBytes ?? []).toString()
}

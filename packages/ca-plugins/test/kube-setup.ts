/** Kubeconfigs, contexts and controllers for the tests of `kubernetes-csr`. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { CAClient, CAContext, RequestTicket } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { type TestEnd, temporaryFolder } from '@livery/test-support'
import type { KubernetesCsrConfig } from '../src/plugins/kubernetes-csr/config.ts'
import { createKubernetesCsr } from '../src/plugins/kubernetes-csr/create-kubernetes-csr.ts'
import { pluginContext, type RecordingContext } from '../src/testing/plugin-context.ts'
import type { KubeApiServer } from './kube-api-server.ts'

export const SIGNER = 'example.com/workloads'

interface KubeconfigUser {
  readonly token?: string
  readonly 'client-certificate'?: string
  readonly 'client-key'?: string
}

/** A kubeconfig for `server`, which goes away with its test. */
export async function kubeconfigFile(
  t: TestEnd,
  server: Pick<KubeApiServer, 'port'>,
  roots: string,
  user: KubeconfigUser = {},
): Promise<{ readonly path: string; readonly folder: string }> {
  const folder = temporaryFolder(t)
  const path = join(folder, 'config')
  await writeFile(path, kubeconfig(`https://localhost:${server.port}`, roots, user), { mode: 0o600 })
  return { path, folder }
}

/** JSON is YAML. */
export function kubeconfig(server: string, roots: string, user: KubeconfigUser): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster: { server, 'certificate-authority-data': Buffer.from(roots).toString('base64') } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  })
}

/** A ticket as core has it, whose note can be awaited. */
export class TestTicket implements RequestTicket {
  stored: string | undefined
  readonly #waiting = new Set<() => void>()

  async store(value: string | undefined): Promise<void> {
    this.stored = value
    for (const wake of this.#waiting) wake()
  }

  /** The name of the request that is noted, now or later. */
  async name(): Promise<string> {
    while (this.stored === undefined) await new Promise<void>(resolve => this.#waiting.add(resolve))
    return String(JSON.parse(this.stored).name)
  }
}

interface ClientSetup {
  readonly client: CAClient
  readonly clock: FakeClock
  readonly context: RecordingContext
}

/** A client with its own clock, closed after the test. */
export async function openClient(
  t: TestContext,
  config: Partial<KubernetesCsrConfig> & Pick<KubernetesCsrConfig, 'kubeconfig'>,
  parts: Partial<CAContext> = {},
): Promise<ClientSetup> {
  const clock = new FakeClock(Date.now())
  const context = pluginContext({ clock, ...parts })
  const client = await createKubernetesCsr(context, kubernetesCsrConfig(config), { random: () => 0.5 })
  t.after(() => client[Symbol.asyncDispose]())
  return { client, clock, context }
}

export function kubernetesCsrConfig(config: Partial<KubernetesCsrConfig>): KubernetesCsrConfig {
  const roots = config.clusterTrustBundle === undefined && { signerRoots: 'no-roots.pem' }
  return {
    signerName: SIGNER,
    usages: ['digital signature', 'server auth', 'client auth'],
    ...roots,
    ...config,
  }
}

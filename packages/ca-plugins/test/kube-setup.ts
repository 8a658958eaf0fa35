/** Kubeconfigs, contexts and controllers for the tests of `kubernetes-csr`. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KubeApiServer } from './kube-api-server.ts'

export const SIGNER = 'example.com/workloads'

export interface KubeconfigUser {
  readonly token?: string
  readonly 'client-certificate'?: string
  readonly 'client-key'?: string
}

/** A kubeconfig for `server`, which goes away with `remove`. */
export async function kubeconfigFile(
  server: Pick<KubeApiServer, 'port'>,
  roots: string,
  user: KubeconfigUser = {},
): Promise<{ readonly path: string; readonly folder: string; readonly remove: () => Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'livery-kube-'))
  const path = join(folder, 'config')
  await writeFile(path, kubeconfig(`https://localhost:${server.port}`, roots, user), { mode: 0o600 })
  return { path, folder, remove: () => rm(folder, { recursive: true, force: true }) }
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

/** Where the contract tests of `kubernetes-csr` run: at the stand-in always, and at the real API server that LIVERY_KUBE names. */
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import {
  CertificatesV1beta1Api,
  CoreV1Api,
  KubeConfig,
  loadAllYaml,
  RbacAuthorizationV1Api,
} from '@kubernetes/client-node'
import { SystemClock } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { CertificateAuthority } from '../src/plugins/embedded/certificate-authority.ts'
import { KubeApiServer, type KubeVerb } from './kube-api-server.ts'
import { kubeconfig, kubeconfigFile, SIGNER } from './kube-setup.ts'
import { KubeSigner } from './kube-signer.ts'

interface Grant {
  readonly resource: 'certificatesigningrequests' | 'clustertrustbundles'
  readonly verbs: readonly KubeVerb[]
}

export interface KubeCluster {
  /** A kubeconfig of an administrator. */
  readonly kubeconfig: string
  /** Where its kubeconfig points to. */
  readonly port: number
  readonly authority: CertificateAuthority
  readonly signer: KubeSigner
  /** A kubeconfig of a new service account that may do this and nothing else. */
  userWith(grants: readonly Grant[]): Promise<string>
  /** The name of a bundle with the roots of `authority`. */
  trustBundle(t: TestContext): Promise<string>
}

/** The rights that the page of the plugin asks operators to grant. */
export async function documentedGrants(): Promise<readonly Grant[]> {
  const page = await readFile(new URL('../docs/kubernetes-csr.md', import.meta.url), 'utf8')
  const manifest = /```yaml kubernetes\n(apiVersion: rbac[\s\S]*?)```/.exec(page)?.[1] ?? ''
  const [role]: {
    readonly rules?: readonly { readonly resources: Grant['resource'][]; readonly verbs: KubeVerb[] }[]
  }[] = loadAllYaml(manifest)
  return (role?.rules ?? []).flatMap(({ resources, verbs }) => resources.map(resource => ({ resource, verbs })))
}

/** A cluster-admin's kubeconfig of a disposable cluster, if set. */
const REAL = process.env['LIVERY_KUBE']

/** For `test(name, { skip }, …)`. */
export const noRealCluster =
  REAL === undefined ? 'LIVERY_KUBE names no kubeconfig of a cluster-admin at an API server for tests' : false

async function openAuthority(t: TestContext): Promise<CertificateAuthority> {
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  return CertificateAuthority.open({ clock, trustDomain: 'cluster.local', intermediate: true })
}

export async function standInCluster(t: TestContext): Promise<KubeCluster & { readonly server: KubeApiServer }> {
  const authority = await openAuthority(t)
  const names = { dnsNames: ['localhost'], ipAddresses: ['127.0.0.1'] }
  const { chain, privateKey } = await authority.issueServerCertificate(names, 86_400)
  const server = await KubeApiServer.start({ tls: { cert: chain, key: privateKey } })
  t.after(() => server[Symbol.asyncDispose]())
  const roots = authority.trustBundle().join('')
  const { path, folder } = await kubeconfigFile(t, server, roots, { token: 'admin' })
  const users = new Map<string, readonly Grant[]>()
  server.fault = ({ verb, resource, token }) => {
    if (token === 'admin') return undefined
    const grants = users.get(token)
    if (!grants) return { kind: 'status', code: 401, message: 'Unauthorized' }
    if (grants.some(grant => grant.resource === resource && grant.verbs.includes(verb))) return undefined
    const message = `${resource}.certificates.k8s.io is forbidden: User "${token}" cannot ${verb} resource "${resource}"`
    return { kind: 'status', code: 403, message }
  }
  return {
    server,
    kubeconfig: path,
    port: server.port,
    authority,
    signer: new KubeSigner({ kubeconfig: path, authority, signerName: SIGNER }),
    async userWith(grants) {
      const token = `user-${users.size + 1}`
      users.set(token, grants)
      const file = join(folder, token)
      await writeFile(file, kubeconfig(`https://localhost:${server.port}`, roots, { token }), { mode: 0o600 })
      return file
    },
    async trustBundle() {
      const name = 'example.com:workloads:roots'
      server.objects.create('clustertrustbundles', { metadata: { name }, spec: { trustBundle: roots } }, 'admin')
      return name
    },
  }
}

/** Call it only unless {@link noRealCluster}. */
export async function realCluster(t: TestContext): Promise<KubeCluster> {
  const path = REAL ?? ''
  const config = new KubeConfig()
  config.loadFromFile(path)
  const cluster = config.getCurrentCluster()
  if (!cluster) throw new Error(`${path} has no current cluster`)
  const authority = await openAuthority(t)
  return {
    kubeconfig: path,
    port: Number(new URL(cluster.server).port || 443),
    authority,
    signer: new KubeSigner({ kubeconfig: path, authority, signerName: SIGNER }),
    userWith: grants => serviceAccountWith(t, config, grants),
    async trustBundle(inner) {
      const api = config.makeApiClient(CertificatesV1beta1Api)
      const name = `${SIGNER.replace('/', ':')}:test-${randomUUID().slice(0, 8)}`
      const spec = { signerName: SIGNER, trustBundle: authority.trustBundle().join('') }
      await api.createClusterTrustBundle({ body: { metadata: { name }, spec } })
      inner.after(() => api.deleteClusterTrustBundle({ name }))
      return name
    },
  }
}

async function serviceAccountWith(t: TestContext, config: KubeConfig, grants: readonly Grant[]): Promise<string> {
  const name = `livery-test-${randomUUID().slice(0, 8)}`
  const core = config.makeApiClient(CoreV1Api)
  const rbac = config.makeApiClient(RbacAuthorizationV1Api)
  const namespace = 'default'
  await core.createNamespacedServiceAccount({ namespace, body: { metadata: { name } } })
  t.after(() => core.deleteNamespacedServiceAccount({ namespace, name }))
  const rules = grants.map(({ resource, verbs }) => ({
    apiGroups: ['certificates.k8s.io'],
    resources: [resource],
    verbs: [...verbs],
  }))
  await rbac.createClusterRole({ body: { metadata: { name }, rules } })
  t.after(() => rbac.deleteClusterRole({ name }))
  await rbac.createClusterRoleBinding({
    body: {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  })
  t.after(() => rbac.deleteClusterRoleBinding({ name }))
  const body = { spec: { audiences: [], expirationSeconds: 600 } }
  const { status } = await core.createNamespacedServiceAccountToken({ name, namespace, body })
  const file = join(temporaryFolder(t), 'config')
  const { server = '', caFile, caData = '' } = config.getCurrentCluster() ?? {}
  const roots = caFile === undefined ? Buffer.from(caData, 'base64') : await readFile(caFile)
  await writeFile(file, kubeconfig(server, roots.toString(), { token: status?.token ?? '' }), { mode: 0o600 })
  return file
}

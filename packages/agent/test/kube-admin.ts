/** Objects at the real API server that LIVERY_KUBE names, made and read as its administrator. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { parse } from 'yaml'

const PATH = process.env['LIVERY_KUBE']

/** For `test(name, { skip }, …)`. */
export const noKube =
  PATH === undefined ? 'LIVERY_KUBE names no kubeconfig of a cluster-admin at an API server for tests' : false

interface TokenWish {
  readonly namespace: string
  readonly account: string
  /** Default: that of the API server. */
  readonly audience?: string
  /** To which it is bound, as kubelet asks for it. */
  readonly pod?: { readonly name: string; readonly uid: string } | undefined
}

export class KubeAdmin {
  readonly server: URL
  readonly #roots: Buffer
  readonly #tls: { readonly ca: Buffer; readonly cert: Buffer; readonly key: Buffer }

  /** Call it only unless {@link noKube}. */
  constructor() {
    const { clusters, users } = parse(readFileSync(PATH ?? '', 'utf8'))
    const { cluster } = clusters[0]
    const { user } = users[0]
    const read = (from: Record<string, string>, name: string): Buffer =>
      from[name] === undefined ? Buffer.from(from[`${name}-data`] ?? '', 'base64') : readFileSync(from[name])
    this.server = new URL(cluster.server)
    this.#roots = read(cluster, 'certificate-authority')
    this.#tls = { ca: this.#roots, cert: read(user, 'client-certificate'), key: read(user, 'client-key') }
  }

  get environment(): { readonly KUBERNETES_SERVICE_HOST: string; readonly KUBERNETES_SERVICE_PORT: string } {
    return { KUBERNETES_SERVICE_HOST: this.server.hostname, KUBERNETES_SERVICE_PORT: this.server.port }
  }

  /** Resolves with the object of the answer. Rejects for a status other than success. */
  async call(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: object,
  ): Promise<Record<string, unknown>> {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const call = request(new URL(path, this.server), { ...this.#tls, method, headers: { 'content-type': type } })
    const [response] = await once(call.end(body && JSON.stringify(body)), 'response')
    const answer = await text(response)
    if (response.statusCode >= 300) throw new Error(`${method} ${path}: ${response.statusCode} ${answer}`)
    return JSON.parse(answer)
  }

  async token({ namespace, account, audience, pod }: TokenWish): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`
    const boundObjectRef = pod && { kind: 'Pod', apiVersion: 'v1', ...pod }
    const audiences = audience === undefined ? [] : [audience]
    const { status } = await this.call('POST', path, { spec: { audiences, expirationSeconds: 600, boundObjectRef } })
    return String(Object(status).token)
  }

  /** Writes the files of a service account below `root`, where kubelet mounts them. */
  async mountAccount(root: string, namespace: string, account: string, pod?: TokenWish['pod']): Promise<void> {
    const folder = join(root, 'var/run/secrets/kubernetes.io/serviceaccount')
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'token'), await this.token({ namespace, account, pod }))
    await writeFile(join(folder, 'ca.crt'), this.#roots)
  }
}

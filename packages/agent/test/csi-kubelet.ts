/** The CSI driver with a table of pods, and what kubelet does: makes the folder of a volume, and calls over the driver's socket. */
import { once } from 'node:events'
import { chmod, mkdir, realpath } from 'node:fs/promises'
import { createServer, type Http2Server } from 'node:http2'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Client, credentials, makeGenericClientConstructor, type ServiceError } from '@grpc/grpc-js'
import { type Clock, SystemClock } from '@livery/core'
import { csiIdentity, csiNode } from '../src/csi/csi-calls.ts'
import { CsiDriver, type VolumeReport } from '../src/csi/csi-driver.ts'
import type { NodePublishVolumeRequest } from '../src/gen/csi/v1/csi.ts'
import type { NodePods } from '../src/kubernetes/node-pods.ts'
import { makeDirectory } from './livery-process.ts'
import { NODE, podResource } from './pod-api-server.ts'
import { podTable } from './watched-pods.ts'

export const UID = '00000000-0000-4000-8000-000000000001'

export type Answer = { readonly code: number; readonly details: string } | object

export interface Kubelet {
  readonly pods: NodePods
  readonly root: string
  /** The folder of the folders of pods. */
  readonly sockets: string
  readonly csiSocket: string
  readonly reports: readonly VolumeReport[]
  /** Where the volume of a pod is mounted; its folder is made. */
  targetOf(uid?: string, volume?: string): Promise<string>
  /** Calls a method by its path. Resolves with the answer, or with the code and text of its status. */
  call(method: string, request: object, signal?: AbortSignal): Promise<Answer>
  publish(target: string, changes?: Partial<NodePublishVolumeRequest>): Promise<Answer>
  unpublish(target: string): Promise<Answer>
  /** Serves HTTP/2 on the socket of a pod, as the agent does. */
  servePod(uid?: string): Promise<Http2Server>
}

/** As kubelet describes the volume of the pod `default/web-0`. */
export function publishRequest(targetPath: string, uid = UID): NodePublishVolumeRequest {
  return {
    volumeId: 'csi-1',
    targetPath,
    volumeCapability: { accessType: { $case: 'mount', value: { mountFlags: [] } } },
    readonly: true,
    volumeContext: {
      'csi.storage.k8s.io/pod.uid': uid,
      'csi.storage.k8s.io/pod.name': 'web-0',
      'csi.storage.k8s.io/pod.namespace': 'default',
      'csi.storage.k8s.io/ephemeral': 'true',
      'csi.storage.k8s.io/serviceAccount.name': 'web',
    },
  }
}

/** The pod of {@link publishRequest}. */
export function webPod(labels: Readonly<Record<string, string>> = { 'livery.dev/inject': 'true' }) {
  return podResource({ name: 'web-0', uid: UID, labels })
}

/** Calls a CSI driver over its socket, as kubelet does. */
export class CsiClient implements Disposable {
  readonly #client: Client

  constructor(socket: string) {
    const Driver = makeGenericClientConstructor({ ...csiIdentity, ...csiNode }, 'csi.v1')
    this.#client = new Driver(`unix:${socket}`, credentials.createInsecure())
  }

  /** Calls a method by its path. Resolves with the answer, or with the code and text of its status. */
  call(method: string, request: object, signal?: AbortSignal): Promise<Answer> {
    const { path, requestSerialize, responseDeserialize } =
      Object.values<AnyMethod>({ ...csiIdentity, ...csiNode }).find(known => known.path === method) ??
      unknownMethod(method)
    return new Promise<Answer>(resolve => {
      const answered = (error: ServiceError | null, value?: object) =>
        resolve(error ? { code: error.code, details: error.details } : (value ?? {}))
      const running = this.#client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, answered)
      signal?.addEventListener('abort', () => running.cancel())
    })
  }

  publish(target: string, changes: Partial<NodePublishVolumeRequest> = {}): Promise<Answer> {
    return this.call('/csi.v1.Node/NodePublishVolume', { ...publishRequest(target), ...changes })
  }

  unpublish(targetPath: string): Promise<Answer> {
    return this.call('/csi.v1.Node/NodeUnpublishVolume', { volumeId: 'csi-1', targetPath })
  }

  [Symbol.dispose](): void {
    this.#client.close()
  }
}

/** Makes the folder of a volume of a pod. Resolves with the path where kubelet wants it mounted. */
export async function makeTarget(kubeletRoot: string, uid = UID, volume = 'livery'): Promise<string> {
  const target = join(kubeletRoot, 'pods', uid, 'volumes/kubernetes.io~csi', volume, 'mount')
  await mkdir(dirname(target), { recursive: true, mode: 0o750 })
  return target
}

export async function startKubelet(t: TestContext, clock: Clock = new SystemClock()): Promise<Kubelet> {
  const directory = await makeDirectory()
  const base = await realpath(directory.path)
  await chmod(base, 0o755)
  const { root, sockets } = { root: join(base, 'kubelet'), sockets: join(base, 'pods') }
  const csiSocket = join(root, 'plugins/csi.sock')
  await mkdir(join(root, 'plugins'), { recursive: true, mode: 0o750 })
  await mkdir(sockets, { mode: 0o700 })
  const { pods } = podTable()
  const reports: VolumeReport[] = []
  const options = { pods, clock, sockets: { root: sockets, name: 'socket' }, kubeletRoot: root, socket: csiSocket }
  const callbacks = { onVolume: (report: VolumeReport) => void reports.push(report), onSocket: () => {} }
  const driver = await CsiDriver.start({ ...options, takeover: false, nodeName: NODE, version: '1.2.3', ...callbacks })
  const client = new CsiClient(csiSocket)
  const servers: Http2Server[] = []
  t.after(async () => {
    client[Symbol.dispose]()
    await driver[Symbol.asyncDispose]()
    for (const server of servers) server.close()
    await directory[Symbol.asyncDispose]()
  })
  return {
    pods,
    root,
    sockets,
    csiSocket,
    reports,
    targetOf: (uid, volume) => makeTarget(root, uid, volume),
    call: (method, request, signal) => client.call(method, request, signal),
    publish: (target, changes) => client.publish(target, changes),
    unpublish: target => client.unpublish(target),
    async servePod(uid = UID) {
      await mkdir(join(sockets, uid), { recursive: true, mode: 0o755 })
      const server = createServer()
      servers.push(server)
      await once(server.listen(join(sockets, uid, 'socket')), 'listening')
      return server
    },
  }
}

interface AnyMethod {
  readonly path: string
  requestSerialize(message: object): Buffer
  responseDeserialize(bytes: Buffer): object
}

/** With a request and an answer of no fields. */
function unknownMethod(path: string): AnyMethod {
  return { path, requestSerialize: () => Buffer.alloc(0), responseDeserialize: () => ({}) }
}

/** The CSI driver: a gRPC server on a socket that only root can open, for kubelet and its node-driver-registrar. */
import type { Socket } from 'node:net'
import {
  type ConnectionInjector,
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type sendUnaryData,
  status,
} from '@grpc/grpc-js'
import { after, type Clock, oneLine } from '@livery/core'
import { asSocket, SocketFile } from '@livery/sds-server'
import type { NodePublishVolumeRequest, NodeUnpublishVolumeRequest } from '../gen/csi/v1/csi.ts'
import { csiIdentity, csiNode } from './csi-calls.ts'
import { CsiError } from './csi-error.ts'
import { DRIVER_NAME } from './driver-name.ts'
import { PodVolumes, type PodVolumesOptions } from './pod-volumes.ts'
import type { VolumeTarget } from './volume-target.ts'

export interface CsiDriverOptions extends PodVolumesOptions {
  readonly clock: Clock
  /** Where kubelet calls the driver. */
  readonly socket: string
  /** Takes the socket from a live owner. */
  readonly takeover: boolean
  readonly nodeName: string
  readonly version: string
  /** Called with each volume that was published, or could not be. */
  readonly onVolume: (volume: VolumeReport) => void
  /** Called when the socket is lost, or is another's. */
  readonly onSocket: (problem: string) => void
}

export interface VolumeReport {
  readonly operation: 'publish' | 'unpublish'
  /** The UID of the pod. */
  readonly uid: string
  readonly path: string
  readonly error: string | undefined
}

/** A node has at most 1,000 pods with most providers, and kubelet makes a connection for each call. */
const MAX_OPERATIONS = 1_024
/** The volume context of a pod has some hundred bytes. */
const MAX_REQUEST_BYTES = 262_144
const DRAIN_MS = 1_000

type Request = NodePublishVolumeRequest | NodeUnpublishVolumeRequest

export class CsiDriver implements AsyncDisposable {
  readonly #options: CsiDriverOptions
  readonly #volumes: PodVolumes
  readonly #server = new Server({
    'grpc.max_receive_message_length': MAX_REQUEST_BYTES,
    'grpc.max_concurrent_streams': MAX_OPERATIONS,
    'grpc.enable_channelz': 0,
  })
  readonly #injector: ConnectionInjector
  readonly #connections = new Set<Socket>()
  /** The targets of the operations that run. */
  readonly #running = new Set<string>()
  readonly #ending = new AbortController()
  #file: SocketFile | undefined

  private constructor(options: CsiDriverOptions) {
    this.#options = options
    this.#volumes = new PodVolumes(options)
    this.#addServices()
    this.#injector = this.#server.createConnectionInjector(ServerCredentials.createInsecure())
  }

  /** Rejects with an `SdsServerError` if it cannot have the socket. */
  static async start(options: CsiDriverOptions): Promise<CsiDriver> {
    const driver = new CsiDriver(options)
    driver.#file = await SocketFile.listen({
      path: options.socket,
      mode: 0o600,
      takeover: options.takeover,
      clock: options.clock,
      onArrival: asSocket(socket => driver.#accept(socket)),
      onEvent: event => options.onSocket(`${event.kind}: ${event.path}`),
    })
    return driver
  }

  /** Takes no new calls, and ends those that wait for a pod with UNAVAILABLE. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close()
    this.#ending.abort(new CsiError(status.UNAVAILABLE, 'the agent ends'))
    this.#injector.drain(0)
    this.#injector.destroy()
    const { promise, resolve } = Promise.withResolvers<void>()
    using _timer = after(this.#options.clock, DRAIN_MS, resolve)
    await Promise.race([promise, this.#closed()])
    for (const socket of this.#connections) socket.destroy()
    this.#server.forceShutdown()
  }

  async #closed(): Promise<void> {
    await Promise.all([...this.#connections].map(socket => new Promise(resolve => socket.once('close', resolve))))
  }

  #accept(socket: Socket): void {
    if (this.#connections.size >= MAX_OPERATIONS) {
      socket.destroy()
      return
    }
    this.#connections.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => this.#connections.delete(socket))
    this.#injector.injectConnection(socket)
  }

  #addServices(): void {
    const { nodeName, version } = this.#options
    this.#server.addService(csiIdentity, {
      getPluginInfo: answer(() => ({ name: DRIVER_NAME, vendorVersion: version })),
      getPluginCapabilities: answer(() => ({})),
      probe: answer(() => ({})),
    })
    this.#server.addService(csiNode, {
      nodePublishVolume: this.#operation('publish', (request: NodePublishVolumeRequest, target, signal) =>
        this.#volumes.publish(request, target, signal),
      ),
      nodeUnpublishVolume: this.#operation('unpublish', (_: NodeUnpublishVolumeRequest, target) =>
        this.#volumes.unpublish(target),
      ),
      nodeGetCapabilities: answer(() => ({})),
      nodeGetInfo: answer(() => ({ nodeId: nodeName })),
    })
  }

  #operation<R extends Request>(
    operation: VolumeReport['operation'],
    run: (request: R, target: VolumeTarget, signal: AbortSignal) => Promise<void>,
  ) {
    return async (call: ServerUnaryCall<R, object>, callback: sendUnaryData<object>): Promise<void> => {
      const cancelled = new AbortController()
      call.on('cancelled', () => cancelled.abort(new CsiError(status.CANCELLED, 'the caller cancelled the call')))
      const signal = AbortSignal.any([cancelled.signal, this.#ending.signal])
      try {
        await this.#run(operation, this.#volumes.targetOf(call.request), target => run(call.request, target, signal))
        callback(null, {})
      } catch (error) {
        callback({ code: error instanceof CsiError ? error.code : status.INTERNAL, details: textOf(error) })
      }
    }
  }

  /** One operation for a target at a time: CSI has the caller try again after ABORTED. */
  async #run(
    operation: VolumeReport['operation'],
    target: VolumeTarget,
    run: (target: VolumeTarget) => Promise<void>,
  ): Promise<void> {
    if (this.#running.has(target.path))
      throw new CsiError(status.ABORTED, 'another operation for this volume has not ended')
    if (this.#running.size >= MAX_OPERATIONS)
      throw new CsiError(status.RESOURCE_EXHAUSTED, `${MAX_OPERATIONS} operations have not ended`)
    this.#running.add(target.path)
    const report = { operation, ...target }
    try {
      await run(target)
      this.#options.onVolume({ ...report, error: undefined })
    } catch (error) {
      this.#options.onVolume({ ...report, error: textOf(error) })
      throw error
    } finally {
      this.#running.delete(target.path)
    }
  }
}

function answer<Request, Response>(make: () => Response) {
  return (_: ServerUnaryCall<Request, Response>, callback: sendUnaryData<Response>) => callback(null, make())
}

function textOf(error: unknown): string {
  return oneLine(error instanceof Error ? error.message : String(error))
}

/** The three methods of `envoy.service.secret.v3.SecretDiscoveryService` on one socket. */
import { after } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import { describePeer } from '../events/describe-peer.ts'
import type { StreamInfo } from '../events/sds-event.ts'
import type { DeltaDiscoveryRequest, DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { DeltaStream } from '../protocol/delta-stream.ts'
import { combinedVersion, type DiscoveryMessage } from '../protocol/discovery-message.ts'
import type { StreamReport } from '../protocol/discovery-protocol.ts'
import { escapePeerName } from '../protocol/escape-peer-name.ts'
import { checkNames, checkTypeUrl } from '../protocol/request-check.ts'
import { type Decoded, decodeDeltaRequest, decodeDiscoveryRequest, heapBytes } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { SotwStream } from '../protocol/sotw-stream.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'
import type { ServiceContext } from './call-context.ts'
import { toStatusError } from './grpc-status.ts'
import type { CallOpener } from './session-guard.ts'
import { connectionCloses, type OpenStream, type SocketCalls } from './socket-calls.ts'
import type { StreamMethod } from './stream-call.ts'
import type { UnaryCall, UnaryMethod } from './unary-call.ts'

export const SDS_SERVICE = 'envoy.service.secret.v3.SecretDiscoveryService'

const STREAM_SECRETS = `/${SDS_SERVICE}/StreamSecrets`
const DELTA_SECRETS = `/${SDS_SERVICE}/DeltaSecrets`
const FETCH_SECRETS = `/${SDS_SERVICE}/FetchSecrets`

export class DiscoveryService {
  readonly openers: ReadonlyMap<string, CallOpener>
  readonly #context: ServiceContext
  readonly #calls: SocketCalls
  readonly #maxNames: number

  constructor(context: ServiceContext, calls: SocketCalls, maxNames: number) {
    this.#context = context
    this.#calls = calls
    this.#maxNames = maxNames
    const { sotw, delta, refusedNames } = context
    const sotwMethod: StreamMethod<DiscoveryRequest, DiscoveryMessage> = {
      method: 'StreamSecrets',
      requestName: 'discovery request',
      maxNames,
      context,
      decode: decodeDiscoveryRequest,
      createStream: (each, subscriptions) => new SotwStream(each, subscriptions, refusedNames),
      encodeMessage: message => sotw.encodeMessage(message),
    }
    const deltaMethod: StreamMethod<DeltaDiscoveryRequest, DiscoveryMessage> = {
      method: 'DeltaSecrets',
      requestName: 'discovery request',
      maxNames,
      context,
      decode: decodeDeltaRequest,
      createStream: (each, subscriptions) => new DeltaStream(each, subscriptions),
      encodeMessage: message => delta.encodeMessage(message),
    }
    const fetchMethod: UnaryMethod = {
      method: 'FetchSecrets',
      open: budget => budget.openFetch(),
      close: budget => budget.closeFetch(),
      answer: (request, call) => this.#fetch(request, call),
    }
    this.openers = new Map([
      [STREAM_SECRETS, (call, connection) => calls.serve(call, connection, sotwMethod)],
      [DELTA_SECRETS, (call, connection) => calls.serve(call, connection, deltaMethod)],
      [FETCH_SECRETS, (call, connection) => calls.serveUnary(call, connection, fetchMethod)],
    ])
  }

  #fetch(request: Buffer, call: UnaryCall): void {
    const { connection } = call
    if (!connection.takesCalls) throw connectionCloses()
    const cancellation = new AbortController()
    call.onEnded = () => cancellation.abort()
    this.#answer(decodeDiscoveryRequest(request), connection, cancellation).then(
      frame => call.send(frame, () => call.finish()),
      error => call.refuse(error),
    )
  }

  /** Lists the call while it waits. */
  async #answer(
    decoded: Decoded<DiscoveryRequest>,
    connection: Connection,
    cancellation: AbortController,
  ): Promise<ResponseFrame> {
    const context = this.#context
    const calls = this.#calls
    if (decoded.kind === 'malformed')
      throw new StreamRefusal('invalid-argument', 'the message is not a discovery request')
    const { request } = decoded
    const bytes = heapBytes(request)
    connection.budget.chargeOrRefuse(bytes, 'more fetches')
    const info: StreamInfo = {
      id: context.nextId(),
      method: 'FetchSecrets',
      connection: connection.info,
      node: escapePeerName(request.node?.id ?? ''),
      names: request.resourceNames.length,
      openedAt: context.clock.now(),
    }
    // It is answered once, by the rules of that moment.
    const { subject } = connection.info
    const refuse = (reason: unknown) => cancellation.abort(reason)
    const open: OpenStream = { subject, info: () => info, subscribed: () => [], review() {}, refuse }
    calls.add(open)
    context.events.emit({ kind: 'stream-opened', stream: info })
    let ended = { code: 0, details: '' }
    try {
      const peer = describePeer(info)
      const report = (each: StreamReport) =>
        context.events.emit({ kind: 'stream-report', stream: info, report: each, peer })
      return await this.#read(request, connection, report, cancellation.signal)
    } catch (error) {
      ended = toStatusError(error)
      if (!(error instanceof StreamRefusal)) context.events.emit({ kind: 'stream-failed', stream: info, error })
      throw error
    } finally {
      connection.budget.release(bytes)
      calls.delete(open)
      context.events.emit({ kind: 'stream-closed', stream: info, status: ended.code, details: ended.details })
    }
  }

  /**
   * Resolves with the encoded response, acquired for one write: the requested names that the caller is allowed, or all of
   * them for the empty list. Waits for secrets that are being issued; throws a `StreamRefusal` (UNAVAILABLE) if none of them is
   * issued in time.
   */
  async #read(
    request: DiscoveryRequest,
    connection: Connection,
    report: (report: StreamReport) => void,
    signal: AbortSignal,
  ): Promise<ResponseFrame> {
    const { clock, fetchWaitMs, source, sotw } = this.#context
    checkTypeUrl(request.typeUrl)
    checkNames(request.resourceNames, this.#maxNames)
    const { resourceNames } = request
    const names = resourceNames.length > 0 ? resourceNames : connection.permission.everything(this.#maxNames)

    const { promise, resolve } = Promise.withResolvers<void>()
    let missing = 0
    using subscriptions = new Subscriptions({
      get view() {
        return connection.permission
      },
      source,
      budget: connection.budget,
      report,
      wake() {
        if (subscriptions.due >= missing) resolve()
      },
    })
    for (const name of new Set(names)) if (subscriptions.ask(name)) missing++
    if (subscriptions.due < missing) {
      using _deadline = after(clock, fetchWaitMs, resolve)
      signal.addEventListener('abort', () => resolve(), { once: true })
      await promise
    }

    const resources = subscriptions.takeDue()
    if (missing > 0 && resources.length === 0)
      throw new StreamRefusal('unavailable', 'none of these secrets is issued yet')
    return sotw.encode({ nonce: '', version: combinedVersion(resources), resources, removed: [] })
  }
}

/** FetchSecrets: one request, answered once, by the rules of its moment. */
import { after } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import { StreamRecord } from '../events/stream-record.ts'
import type { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { combinedVersion } from '../protocol/discovery-message.ts'
import { escapeNodeId } from '../protocol/escape-peer-name.ts'
import { checkNames, checkTypeUrl, decodeDiscoveryRequest } from '../protocol/request-codec.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'
import type { ServiceContext } from './call-context.ts'
import { NOT_ENDED, statusOf } from './grpc-status.ts'
import { connectionCloses, type OpenStream, type SocketCalls } from './socket-calls.ts'
import type { UnaryCall, UnaryMethod } from './unary-call.ts'

/** The heap that a name takes beside its text. */
const NAME_BYTES = 40

export class FetchSecrets implements UnaryMethod {
  readonly kind = 'fetch'
  readonly #context: ServiceContext
  readonly #calls: SocketCalls

  constructor(context: ServiceContext, calls: SocketCalls) {
    this.#context = context
    this.#calls = calls
  }

  answer(request: Buffer, call: UnaryCall): void {
    const { connection } = call
    if (!connection.takesCalls) throw connectionCloses()
    const cancellation = new AbortController()
    call.onEnded = () => cancellation.abort()
    const decoded = decodeDiscoveryRequest(request)
    // A character of the heap has two bytes at most, and at least one in the message.
    const bytes = 2 * request.length + NAME_BYTES * decoded.resourceNames.length
    this.#answer(decoded, bytes, connection, cancellation).then(
      frame => call.send(frame, () => call.finish()),
      error => call.refuse(error),
    )
  }

  /** Lists the call while it waits, and charges `bytes` for its request. */
  async #answer(
    request: DiscoveryRequest,
    bytes: number,
    connection: Connection,
    cancellation: AbortController,
  ): Promise<ResponseFrame> {
    connection.budget.chargeOrRefuse(bytes, 'more fetches')
    const node = { nodeId: escapeNodeId(request.node?.id ?? '') }
    const record = new StreamRecord('FetchSecrets', this.#context, connection.info, node, {
      size: request.resourceNames.length,
    })
    const open: OpenStream = {
      connection,
      info: () => record.info,
      subscribed: () => [],
      review() {},
      refuse: reason => cancellation.abort(reason),
    }
    this.#calls.add(open)
    let ended = NOT_ENDED
    try {
      return await this.#read(request, connection, record, cancellation.signal)
    } catch (error) {
      ended = statusOf(error)
      record.failed(error)
      throw error
    } finally {
      connection.budget.release(bytes)
      this.#calls.delete(open)
      record.closed(ended)
    }
  }

  /**
   * Resolves with the encoded response, acquired for one write: the requested names that the caller is allowed, or all of
   * them for the empty list. Waits for secrets that are being issued; throws a `StreamRefusal` (UNAVAILABLE) if none of them is
   * issued in time.
   */
  async #read(
    { typeUrl, resourceNames }: DiscoveryRequest,
    connection: Connection,
    record: StreamRecord,
    signal: AbortSignal,
  ): Promise<ResponseFrame> {
    const { clock, fetchWaitMs, maxNames, sotw } = this.#context
    checkTypeUrl(typeUrl)
    checkNames(resourceNames, maxNames)
    const names = resourceNames.length > 0 ? resourceNames : connection.permission.everything(maxNames)

    const { promise, resolve } = Promise.withResolvers<void>()
    let missing = 0
    using subscriptions = new Subscriptions({
      shared: this.#context,
      connection,
      record,
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
    return sotw.encodeMessage({ nonce: '', version: combinedVersion(resources), resources, removed: [] })
  }
}

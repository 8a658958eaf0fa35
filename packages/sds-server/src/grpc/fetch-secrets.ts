/** FetchSecrets: one response to one request, for grpcurl and for clients that poll. */
import { after, type Clock } from '@livery/core/plugin'
import type { Connection } from '../access/connection.ts'
import type { DiscoveryRequest } from '../gen/envoy/service/discovery/v3/discovery.ts'
import { combinedVersion } from '../protocol/discovery-message.ts'
import { askAndReport, type StreamReport } from '../protocol/discovery-protocol.ts'
import { checkNames, checkTypeUrl } from '../protocol/request-check.ts'
import type { ResponseFrame } from '../protocol/response-frame.ts'
import type { ResponseEncoder } from '../protocol/secret-encoding.ts'
import { StreamRefusal } from '../protocol/stream-refusal.ts'
import { Subscriptions } from '../protocol/subscriptions.ts'

interface FetchOptions {
  readonly connection: Pick<Connection, 'permission' | 'budget'>
  readonly encoder: ResponseEncoder
  readonly maxNames: number
  readonly clock: Clock
  /** How long to wait for secrets that are not issued yet, milliseconds. */
  readonly waitMs: number
  readonly signal: AbortSignal
  report(report: StreamReport): void
}

/**
 * Resolves with the encoded response, acquired for one write: the requested names that the caller is allowed, or all of them
 * for the empty list. Waits for secrets that are being issued; throws a `StreamRefusal` (UNAVAILABLE) if none of them is issued in time.
 */
export async function fetchSecrets(request: DiscoveryRequest, options: FetchOptions): Promise<ResponseFrame> {
  const { connection, maxNames, clock } = options
  checkTypeUrl(request.typeUrl)
  checkNames(request.resourceNames, maxNames)
  const names = request.resourceNames.length > 0 ? request.resourceNames : connection.permission.everything(maxNames)

  const { promise, resolve } = Promise.withResolvers<void>()
  let missing = 0
  using subscriptions = new Subscriptions({
    get view() {
      return connection.permission
    },
    budget: connection.budget,
    wake() {
      if (subscriptions.due >= missing) resolve()
    },
  })
  for (const name of new Set(names))
    if (askAndReport(subscriptions, name, undefined, { budget: connection.budget, report: options.report })) missing++
  if (subscriptions.due < missing) {
    using _deadline = after(clock, options.waitMs, resolve)
    options.signal.addEventListener('abort', () => resolve(), { once: true })
    await promise
  }

  const resources = subscriptions.takeDue()
  if (missing > 0 && resources.length === 0)
    throw new StreamRefusal('unavailable', 'none of these secrets is issued yet')
  return options.encoder.encode({ nonce: '', version: combinedVersion(resources), resources, removed: [] })
}

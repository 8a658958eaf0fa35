/** The `failover` plugin: an ordered list of CAs of one trust domain, with a circuit breaker each. */
import {
  type CACapabilities,
  type CAContext,
  type ConfigOf,
  defineCAPlugin,
  KEY_TYPES,
  type PluginOptions,
} from '@livery/core/plugin'
import { CALL_TIMEOUT_MS } from '../../transport/call-timeout.ts'
import { FailoverClient } from './client.ts'
import type { BreakerChange } from './failover-options.ts'

const failoverOptions = {
  after: {
    type: 'duration',
    min: '0s',
    description:
      'how long a renewal waits for the first CA before the next one is asked; default and maximum: half of the life that the certificate had left at the first failure. A first certificate never waits',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served beside the roots of the CAs' },
} as const satisfies PluginOptions

/** Failures in a row after which a CA gets no calls. */
const FAILURES = 3
/** How long a CA gets no calls at first, and at most. */
const PAUSE_MS = 30_000
const MAX_PAUSE_MS = 5 * 60_000

/** Several CAs as one. */
export const failover = defineCAPlugin({
  apiVersion: 1,
  name: 'failover',
  capabilities: { roots: 'push', ttl: 'honoured', san: 'csr', keyTypes: KEY_TYPES },
  capabilitiesWith: capabilitiesOfAll,
  needs: ['members'],
  options: failoverOptions,
  create(context, config) {
    const { members = [] } = context
    if (members.length === 0)
      throw new TypeError('Cannot use cas: it is empty. List the CAs under it, the preferred one first.')
    return new FailoverClient({ ...parts(context, config), members })
  },
})

function parts({ clock, log, metrics, rootsPollMs }: CAContext, config: ConfigOf<typeof failoverOptions>) {
  const opened = metrics.counter('failover_opened', 'How often a CA of the list was left alone')
  const halfOpened = metrics.counter('failover_half_opened', 'How often one was asked by a single request on trial')
  const closed = metrics.counter('failover_closed', 'How often one answered again')
  const takenOver = metrics.counter('failover_taken_over', 'Certificates by another CA than the first of the list')
  return {
    clock,
    timeoutMs: CALL_TIMEOUT_MS,
    failures: FAILURES,
    openMs: PAUSE_MS,
    maxOpenMs: MAX_PAUSE_MS,
    ...(config.after !== undefined && { afterMs: config.after }),
    ...(config.roots !== undefined && { rootsFile: config.roots }),
    ...(rootsPollMs !== undefined && { rootsPollMs }),
    onBreaker({ name }: { readonly name: string }, change: BreakerChange): void {
      switch (change.kind) {
        case 'open':
          opened.add()
          log.warn(`The CA ${name} is left alone for ${change.forMs} ms, and the next one stands in: ${change.reason}`)
          break
        case 'half-open':
          halfOpened.add()
          log.info(`The CA ${name} is asked again, by one request`)
          break
        case 'closed':
          closed.add()
          log.info(`The CA ${name} answers again`)
          break
      }
    },
    onTakenOver: () => takenOver.add(),
  }
}

/** The weakest first. */
const TTL: readonly CACapabilities['ttl'][] = ['ignored', 'clamped', 'honoured']
const SAN: readonly CACapabilities['san'][] = ['config', 'caller', 'csr']

/**
 * The capabilities that hold whichever CA issues. The roots are always listed: a CA without a list contributes the
 * roots of its certificates.
 */
export function capabilitiesOfAll(members: readonly CACapabilities[]): CACapabilities {
  return {
    roots: 'push',
    ttl: TTL.find(value => members.some(({ ttl }) => ttl === value)) ?? 'honoured',
    san: SAN.find(value => members.some(({ san }) => san === value)) ?? 'csr',
    keyTypes: KEY_TYPES.filter(type => members.every(({ keyTypes }) => keyTypes.includes(type))),
    ...(members.some(({ bringsKey }) => bringsKey) && { bringsKey: true }),
    ...(members.some(({ asynchronous }) => asynchronous) && { asynchronous: true }),
  }
}

export { failover as plugin }

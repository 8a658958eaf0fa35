/** The `failover` plugin: an ordered list of CAs of one trust domain, with a circuit breaker each. */
import {
  type CACapabilities,
  type CAContext,
  type ConfigOf,
  defineCAPlugin,
  KEY_TYPES,
  OptionError,
} from '@livery/core'
import type { BreakerChange } from './circuit-breaker.ts'
import { FailoverClient } from './client.ts'

const failoverOptions = {
  timeout: {
    type: 'duration',
    default: '10s',
    min: '100ms',
    max: '5m',
    description:
      'how long one CA may take before the next one is asked. A CA that waits for an approval has the time of the request (30 s)',
  },
  failures: {
    type: 'number',
    default: 3,
    min: 1,
    max: 100,
    description: 'failures in a row after which a CA is left alone',
  },
  pause: {
    type: 'duration',
    default: '30s',
    min: '1s',
    max: '1h',
    description: 'how long it is left alone at first; doubled each time that it fails again',
  },
  maxPause: {
    type: 'duration',
    default: '5m',
    min: '1s',
    max: '24h',
    description: 'the longest that it is left alone',
  },
  roots: { type: 'path', description: 'a PEM file with roots that are always served, beside those of the CAs' },
} as const

/** Several CAs as one. */
export const failover = defineCAPlugin({
  apiVersion: 1,
  name: 'failover',
  capabilities: { roots: 'push', ttl: 'honoured', san: 'csr', keyTypes: KEY_TYPES },
  capabilitiesWith: capabilitiesOfAll,
  needs: ['members'],
  options: failoverOptions,
  check({ pause, maxPause }) {
    if (pause > maxPause)
      throw new OptionError(
        'pause',
        `Cannot use pause ${pause} ms: it is longer than maxPause, ${maxPause} ms. Lower pause or raise maxPause.`,
      )
  },
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
    timeoutMs: config.timeout,
    failures: config.failures,
    openMs: config.pause,
    maxOpenMs: config.maxPause,
    ...(config.roots !== undefined && { rootsFile: config.roots }),
    ...(rootsPollMs !== undefined && { rootsPollMs }),
    onBreaker({ name }: { readonly name: string }, change: BreakerChange): void {
      switch (change.kind) {
        case 'open':
          opened.add()
          log.warn(`The CA ${name} is left alone for ${change.forMs} ms, and the next one is asked: ${change.reason}`)
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
 * The capabilities that hold whichever CA issues. The roots are always listed: a CA without a list contributes those
 * that came with its certificates.
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

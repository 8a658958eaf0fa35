import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CertificateSecret, type IdentityEntry, type IdentityState, plainKeyVault, SealedKey } from '@livery/core'
import { parseSpiffeId, type SpiffeId } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'
import { IdentityMetrics } from './identity-metrics.ts'
import { Metrics } from './metrics.ts'

const SERIES = ['livery_certificate_expiration_timestamp_seconds', 'istio_agent_cert_expiry_seconds']

/**
 * Metrics of many identities, the first `failing` of which fail; `secondsLeft` by index: an identity without it has no certificate.
 * `wishes`: names on demand that the CA refuses, which come before them.
 */
class Bench implements Disposable {
  readonly clock = new FakeClock()
  readonly metrics = new Metrics()

  constructor(count: number, failing: number, secondsLeft: (index: number) => number | undefined, wishes = 0) {
    const entries = new Map<SpiffeId, IdentityEntry>()
    for (let index = 0; index < wishes; index++) {
      const identity = parseSpiffeId(`spiffe://cluster.local/wish-${index}`)
      const entry = this.#entry(identity, true, undefined)
      entries.set(identity, { ...entry, state: 'failing', hold: 'on-demand', lastSuccessAt: undefined })
    }
    for (let index = 0; index < count; index++) {
      const identity = parseSpiffeId(`spiffe://cluster.local/sa-${index}`)
      entries.set(identity, this.#entry(identity, index < failing, secondsLeft(index)))
    }
    const source = {
      identities: () => entries.keys(),
      entry: (identity: SpiffeId) => entries.get(identity),
      bundles: () => [],
      rotations: () => [],
      schedule: () => ({ downSince: undefined }),
    }
    const identities = new IdentityMetrics(source, this.clock, undefined)
    this.metrics.add(identities.rows(), turns => identities.look(turns))
  }

  /** The indexes of the identities that have a series of this name. */
  owners(text: string, name: string): Set<number> {
    const lines = text.split('\n').filter(line => line.startsWith(`${name}{`))
    return new Set(lines.map(line => Number(/sa-(\d+)"/.exec(line)?.[1])))
  }

  [Symbol.dispose](): void {
    this.metrics[Symbol.dispose]()
  }

  #entry(identity: SpiffeId, isFailing: boolean, secondsLeft: number | undefined): IdentityEntry {
    const now = this.clock.now()
    const at = now - 60_000
    const withCertificate: IdentityState = isFailing ? 'failing' : 'available'
    return {
      identity,
      state: secondsLeft === undefined ? 'expired' : withCertificate,
      hold: 'pinned',
      secret: secondsLeft === undefined ? undefined : secretOf(identity, now + secondsLeft * 1_000),
      root: undefined,
      addedAt: at,
      renewAt: now,
      receivedAt: at,
      lastsUntil: secondsLeft === undefined ? undefined : now + secondsLeft * 1_000,
      lastSuccessAt: at,
      lastFailure: isFailing ? { at, code: 'denied', message: 'no' } : undefined,
      failingSince: isFailing ? at : undefined,
      preflight: undefined,
    }
  }
}

function secretOf(name: SpiffeId, notAfter: number): CertificateSecret {
  const privateKey = new SealedKey(plainKeyVault, new Uint8Array())
  return new CertificateSecret({
    name,
    version: 'v',
    certificateChain: '',
    privateKey,
    notBefore: 0,
    notAfter,
    serialNumber: '01',
  })
}

function value(text: string, series: string): number {
  const line = text.split('\n').find(line => line.startsWith(`${series} `)) ?? assert.fail(series)
  return Number(line.slice(series.length))
}

test('above a thousand identities the 100 with the least life left have series', async () => {
  // The identities with the highest index have the least life left.
  using bench = new Bench(10_000, 50, index => 100_000 - index)
  const text = await bench.metrics.text()
  const expected = new Set(Array.from({ length: 100 }, (_, place) => 9_900 + place))
  for (const name of SERIES) assert.deepEqual(bench.owners(text, name), expected)
  assert.equal(value(text, 'livery_identities_failing{code="denied"}'), 50)
  assert.equal(value(text, 'livery_certificate_remaining_seconds_count'), 10_000)
  assert.doesNotMatch(text, /^livery_ca_clock_ahead_seconds\{/m, 'nobody signed them just now')
})

test('names that a caller makes up and the CA refuses take no series from an identity that is real', async () => {
  using bench = new Bench(500, 0, index => 100_000 - index, 5_000)
  const text = await bench.metrics.text()
  for (const name of SERIES) assert.deepEqual(bench.owners(text, name), new Set(Array(500).keys()))
  assert.equal(value(text, 'livery_identities_failing{code="denied"}'), 5_000)
})

test('a scrape of ten thousand identities leaves turns to other work', async () => {
  using bench = new Bench(10_000, 10_000, index => index)
  let turns = 0
  let isDone = false
  const text = bench.metrics.text().finally(() => {
    isDone = true
  })
  while (!isDone) {
    await new Promise(setImmediate)
    turns++
  }
  await text
  assert.ok(turns > 3, `${turns} turns`)
})

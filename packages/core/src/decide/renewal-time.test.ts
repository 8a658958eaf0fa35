import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { canOutlive, latestChange, renewalSlot, renewalTime, slotOf, spreadTime } from './renewal-time.ts'

const policy = { ratio: 0.5, jitter: 0.1 }
const HOUR = 3_600_000

test('a certificate is renewed between 40 and 60 % of what was left when it arrived', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (slot, random) => {
        const drawn = renewalSlot(slot, random)
        const time = renewalTime({ usableFrom: 1_000_000, notAfter: 1_000_000 + 24 * HOUR }, policy, drawn)
        const fraction = (time - 1_000_000) / (24 * HOUR)
        assert.ok(fraction >= 0.4 && fraction <= 0.6, `at ${fraction}`)
      },
    ),
  )
})

test('back-dating by the CA does not make a short-lived certificate due at once', () => {
  const received = 10_000_000
  const time = renewalTime({ usableFrom: received, notAfter: received + 60_000 }, policy, 0)
  assert.equal(time - received, 24_000)
})

test('two renewals are at least a second apart, whatever the lifetime', () => {
  for (const lifetime of [-5_000, 0, 1, 500]) {
    assert.equal(renewalTime({ usableFrom: 0, notAfter: lifetime }, policy, 0), 1_000)
  }
})

test('a certificate that should outlive an outage is renewed while so much is left, and by the ratio at the latest', () => {
  const promised = { ...policy, surviveMs: 12 * HOUR }
  const hours = (lifetime: number, phase: number) =>
    renewalTime({ usableFrom: 0, notAfter: lifetime * HOUR }, promised, phase) / HOUR
  for (const phase of [0, 0.5, 0.999]) {
    assert.ok(hours(20, phase) <= 8 && hours(20, phase) >= 4, `at ${hours(20, phase)}`)
    assert.ok(hours(14, phase) <= 2 && hours(14, phase) >= 1, `at ${hours(14, phase)}`)
    assert.equal(hours(90 * 24, phase), renewalTime({ usableFrom: 0, notAfter: 90 * 24 * HOUR }, policy, phase) / HOUR)
  }
  assert.ok(hours(20, 0.9) > hours(20, 0.1), 'renewals are spread')
})

test('a life that is too short for the outage is renewed by the ratio', () => {
  const promised = { ...policy, surviveMs: 12 * HOUR }
  for (const lifetime of [-1, 0, HOUR, 12 * HOUR, 13 * HOUR]) {
    assert.equal(canOutlive(Math.max(lifetime, 0), promised.surviveMs), false)
    const certificate = { usableFrom: 0, notAfter: lifetime }
    assert.equal(renewalTime(certificate, promised, 0.5), renewalTime(certificate, policy, 0.5))
  }
})

test('the renewals of ten thousand identities fetched in one second are spread: no second has three times the mean', () => {
  const lifetime = 24 * HOUR
  const perBucket = new Map<number, number>()
  for (let index = 0; index < 10_000; index++) {
    const slot = slotOf(`spiffe://cluster.local/ns/load/sa/sa-${index}`)
    const time = renewalTime(
      { usableFrom: 0, notAfter: lifetime },
      policy,
      renewalSlot(slot, ((index * 37) % 100) / 100),
    )
    const bucket = Math.floor((time / lifetime - 0.4) * 500)
    perBucket.set(bucket, (perBucket.get(bucket) ?? 0) + 1)
  }
  assert.equal(Math.max(...perBucket.keys()), 99)
  assert.ok(Math.max(...perBucket.values()) < 3 * 100)
})

test('an identity keeps its slot among the renewals', () => {
  const identity = 'spiffe://cluster.local/ns/default/sa/web'
  assert.equal(slotOf(identity), slotOf(identity))
  assert.notEqual(slotOf(identity), slotOf('spiffe://cluster.local/ns/default/sa/api'))
})

test('overdue renewals are spread over a tenth of the remaining lifetime, at most ten minutes, and end before it does', () => {
  assert.equal(spreadTime({ now: 0, notAfter: 10_000 }, 0.5), 500)
  assert.equal(spreadTime({ now: 0, notAfter: 24 * HOUR }, 0.5), 300_000)
  assert.equal(spreadTime({ now: 0, notAfter: 24 * HOUR }, 0), 0)
})

test('a replacement waits until a tenth of the lifetime is left, and one that came late for nine tenths of what is left', () => {
  assert.equal(latestChange(1_000, 11_000, 5_000), 10_000)
  assert.equal(latestChange(1_000, 11_000, 9_000), 10_000)
  assert.equal(latestChange(1_000, 11_000, 10_500), 10_950)
  assert.equal(latestChange(1_000, 11_000, 12_000), 12_000)
})

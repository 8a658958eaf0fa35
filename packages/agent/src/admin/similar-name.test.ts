import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean, similarName } from './similar-name.ts'

const SHOP = 'spiffe://cluster.local/ns/shop/sa'
const NAMES = [
  'ROOTCA',
  'spiffe://cluster.local',
  `${SHOP}/payments`,
  `${SHOP}/web`,
  'spiffe://cluster.local/ns/x/sa/web',
]

test('a last segment, a misspelt one, a wrong folder and a slash at the end find the name that was meant', () => {
  for (const asked of [
    'payments',
    'paymets',
    `${SHOP}/paymets`,
    `${SHOP}/payments/`,
    'spiffe://cluster.local/ns/shpo/sa/payments',
  ])
    assert.equal(similarName(asked, NAMES), `${SHOP}/payments`, asked)
  assert.equal(similarName(`${SHOP}/wbe`, NAMES.slice(0, -1)), `${SHOP}/web`)
  assert.equal(similarName('rootca', NAMES), 'ROOTCA')
  assert.equal(similarName('spiffe://cluster.local/', NAMES), 'spiffe://cluster.local')
  assert.equal(didYouMean('payments', NAMES), ` Did you mean ${SHOP}/payments?`)
})

test('of several accounts of one name the folder decides; without it, and where nothing is near, nothing is offered', () => {
  assert.equal(similarName('spiffe://cluster.local/ns/shpo/sa/web', NAMES), `${SHOP}/web`)
  assert.equal(similarName(`${SHOP}/wex`, NAMES), `${SHOP}/web`)
  for (const asked of ['web', 'nobody', 'x', '', '///', 'p'.repeat(10_000)])
    assert.equal(didYouMean(asked, NAMES), '', asked)
})

test('among 10,000 names the one that was meant is found', () => {
  const many = Array.from({ length: 10_000 }, (_, at) => `${SHOP}/tenant-${String(at).padStart(5, '0')}`)
  assert.equal(similarName(`${SHOP}/paymets`, [...many, ...NAMES]), `${SHOP}/payments`)
  assert.equal(similarName('tenant-09999', many), `${SHOP}/tenant-09999`)
})

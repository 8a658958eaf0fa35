import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseResourceName } from './resource-name.ts'

test('resource names mean what Envoy, Istio and SPIRE configurations mean by them', () => {
  const gateway = { kind: 'file-roots', file: '/etc/gateway/ca.crt' } as const
  const names = { default: 'default', root: 'ROOTCA', all: 'ALL', files: new Map([['sds://gateway', gateway]]) }
  const parse = (text: string) => parseResourceName(text, names)
  assert.deepEqual(parse('default'), { kind: 'own-identity' })
  assert.deepEqual(parse('ROOTCA'), { kind: 'own-bundle' })
  assert.deepEqual(parse('spiffe://cluster.local'), { kind: 'bundle', trustDomain: 'cluster.local' })
  assert.deepEqual(parse('ALL'), { kind: 'all-bundles' })
  const identity = 'spiffe://cluster.local/ns/default/sa/web'
  assert.deepEqual(parse(identity), { kind: 'identity', identity })
  assert.deepEqual(parse('file-root:system'), { kind: 'file-roots', file: 'system' })
  const pair = { kind: 'file-pair', chain: '/etc/certs/cert-chain.pem', key: '/etc/certs/key.pem' }
  assert.deepEqual(parse('file-cert:/etc/certs/cert-chain.pem~/etc/certs/key.pem'), pair)
  assert.deepEqual(parse('sds://gateway'), gateway)
  for (const text of [
    'sds://other',
    'Default',
    'rootca',
    '',
    'spiffe://',
    'spiffe://td/',
    'kubernetes://x',
    'file-root:',
    'file-cert:/a',
  ]) {
    assert.equal(parse(text).kind, 'unknown', text)
  }
  assert.deepEqual(parseResourceName('mine', { ...names, default: 'mine', root: 'roots', all: 'every' }), {
    kind: 'own-identity',
  })
  assert.equal(parseResourceName('default', { ...names, default: 'mine', root: 'roots', all: 'every' }).kind, 'unknown')
})

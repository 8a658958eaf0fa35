import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Events } from '@livery/core'
import type { Pod, PodTable } from './pod.ts'
import { podNameOf } from './pod-callers.ts'

test('a subject has the name of its pod while the table has it; a caller that is not a pod has none', () => {
  const pod: Pod = {
    uid: '12-34',
    namespace: 'shop',
    name: 'web-1',
    serviceAccount: 'web',
    labels: new Map(),
    annotations: new Map(),
    identity: undefined,
    dnsNames: [],
  }
  const pods: PodTable = { get: uid => (uid === pod.uid ? pod : undefined), all: () => [pod], changes: new Events() }
  assert.equal(podNameOf('pod 12-34', pods), 'shop/web-1')
  assert.equal(podNameOf('pod 56-78', pods), undefined)
  assert.equal(podNameOf('uid 12-34', pods), undefined)
})

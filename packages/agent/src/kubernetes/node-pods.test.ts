/** The table of a node's pods, with what an API server could send. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type PodInit, type PodResource, podResource } from '../../test/pod-api-server.ts'
import { podTable, type RulesInit } from '../../test/watched-pods.ts'
import { parseIdentityTemplate } from '../config/identity-template.ts'

const UID = '00000000-0000-4000-8000-000000000001'

/** The identity of one pod, and why it has none. */
function identityOf(pod: Partial<PodInit>, rules: RulesInit = {}): string | undefined {
  const { pods, problems } = podTable(rules)
  pods.put(podResource({ name: 'web-0', uid: UID, ...pod }))
  return pods.get(UID)?.identity ?? problems[0]?.reason
}

function withMetadata(pod: PodResource, metadata: object): PodResource {
  return { ...pod, metadata: { ...pod.metadata, ...metadata } }
}

test('the identity comes from the service account by default, for pods that are labelled', () => {
  assert.equal(identityOf({ serviceAccount: 'api' }), 'spiffe://cluster.local/ns/default/sa/api')
  assert.equal(identityOf({ labels: {} }), undefined)
  assert.equal(identityOf({ labels: { 'livery.dev/inject': 'yes' } }), undefined)
  assert.equal(identityOf({ labels: {} }, { selector: '' }), 'spiffe://cluster.local/ns/default/sa/web')
  assert.equal(identityOf({ namespace: 'kube-system' }, { except: ['kube-system'] }), undefined)
  assert.equal(identityOf({}, { only: ['prod'] }), undefined)
  assert.equal(identityOf({ namespace: 'prod' }, { only: ['prod'] }), 'spiffe://cluster.local/ns/prod/sa/web')
})

test('a template takes names, labels and annotations, and a pod that cannot fill it has no identity', () => {
  const labels = { 'livery.dev/inject': 'true', app: 'shop', bad: '' }
  const annotations = { 'example.com/id': 'x-1', slash: 'a/b', dots: '..', space: 'a b' }
  const pod = { labels, annotations }
  const cases = [
    ['spiffe://{trustDomain}/{label:app}/{pod}', 'spiffe://cluster.local/shop/web-0'],
    ['spiffe://cluster.local/{annotation:example.com/id}-{uid}', `spiffe://cluster.local/x-1-${UID}`],
    ['spiffe://{trustDomain}/{label:none}', 'it has no label:none'],
    ['spiffe://{trustDomain}/{label:bad}', 'it has no label:bad'],
    // A slash would let a pod write further segments.
    ['spiffe://{trustDomain}/{annotation:slash}', 'its annotation:slash has characters other than letters'],
    ['spiffe://{trustDomain}/{annotation:space}', 'its annotation:space has characters other than letters'],
    ['spiffe://{trustDomain}/{annotation:dots}', 'the template makes no SPIFFE ID of it'],
  ] as const
  for (const [identity, expected] of cases) assert.ok(identityOf(pod, { identity })?.startsWith(expected), identity)
})

test('a template that can make no identity of this trust domain is refused', () => {
  const cases = [
    ['spiffe://other/{pod}', 'is not in the trust domain cluster.local of this agent'],
    ['spiffe://{namespace}/{pod}', 'is not in the trust domain cluster.local of this agent'],
    ['{trustDomain}/{pod}', 'does not make SPIFFE IDs'],
    ['spiffe://{trustDomain}/', 'does not make SPIFFE IDs'],
    ['spiffe://{trustDomain}/{ns}', 'names {ns}, which is none of trustDomain, namespace'],
    ['spiffe://{trustDomain}/{constructor}', 'names {constructor}'],
    ['spiffe://{trustDomain}/{pod', 'has a brace alone'],
    ['spiffe://{trustDomain}/{{pod}}', 'has a brace alone'],
  ] as const
  for (const [template, expected] of cases) {
    const parsed = parseIdentityTemplate(template, 'cluster.local')
    assert.ok('problem' in parsed && parsed.problem.startsWith(expected), template)
  }
})

test('a pod goes without a DNS name that it cannot fill, which is said once, and has the others', () => {
  const { pods, problems } = podTable({ dnsNames: ['{pod}.{namespace}.svc', '{label:app}.svc', '{annotation:host}'] })
  const put = (labels: Record<string, string>, annotations = {}) =>
    pods.put(podResource({ uid: UID, name: 'web-0', labels: { 'livery.dev/inject': 'true', ...labels }, annotations }))
  const names = () => [...pods.all()].map(({ dnsNames }) => dnsNames)
  put({ app: 'a_b' }, { host: 'other.example' })
  put({ app: 'a_b', tier: 'x' }, { host: 'other.example' })
  assert.deepEqual(names(), [['web-0.default.svc']])
  assert.deepEqual(problems, [
    { pod: 'default/web-0', dnsName: '{label:app}.svc', reason: 'its label:app is not a DNS label' },
    { pod: 'default/web-0', dnsName: '{annotation:host}', reason: 'its annotation:host is not a DNS label' },
  ])
  put({ app: 'shop' })
  assert.deepEqual(names(), [['shop.svc', 'web-0.default.svc']])
  assert.equal(problems.at(-1)?.reason, 'it has no annotation:host')
})

test('a pod that has ended is given up, one that terminates is kept until it is gone', () => {
  const { pods } = podTable()
  const changes: string[] = []
  pods.changes.subscribe(({ kind, pod }) => changes.push(`${kind} ${pod.name}`))
  for (const phase of ['Succeeded', 'Failed']) {
    pods.put(podResource({ name: 'job', uid: UID, phase: 'Pending' }))
    pods.put(podResource({ name: 'job', uid: UID, phase }))
    assert.equal(pods.get(UID), undefined)
  }
  assert.deepEqual(changes, ['added job', 'removed job', 'added job', 'removed job'])

  const web = podResource({ name: 'web' })
  pods.put(web)
  pods.put(withMetadata(web, { deletionTimestamp: '2026-01-01T00:00:00Z' }))
  assert.ok(pods.get(web.metadata.uid)?.identity)
  pods.delete(web)
  assert.equal(pods.get(web.metadata.uid), undefined)
  assert.deepEqual(changes.slice(4), ['added web', 'removed web'])
})

test('a pod that was made again by the same name with another service account is another pod', () => {
  const { pods } = podTable()
  const old = podResource({ name: 'web-0', serviceAccount: 'old' })
  const young = podResource({ name: 'web-0', serviceAccount: 'young' })
  pods.put(old)
  // The deletion of the old one may come after.
  pods.put(young)
  pods.delete(old)
  assert.equal(pods.get(old.metadata.uid), undefined)
  assert.equal(pods.get(young.metadata.uid)?.identity, 'spiffe://cluster.local/ns/default/sa/young')
})

test('other labels change the identity, and an object that cannot be read changes nothing', () => {
  const { pods, problems } = podTable({ identity: 'spiffe://{trustDomain}/{label:app}' })
  const kinds: string[] = []
  pods.changes.subscribe(({ kind }) => kinds.push(kind))
  const labelled = (app: string) => podResource({ name: 'web', uid: UID, labels: { 'livery.dev/inject': 'true', app } })
  pods.put(labelled('a'))
  pods.put(labelled('a'))
  pods.put(labelled('b'))
  assert.deepEqual([kinds, pods.get(UID)?.identity], [['added', 'changed'], 'spiffe://cluster.local/b'])
  pods.put(withMetadata(labelled('c'), { name: '../c' }))
  pods.put(podResource({ name: 'web', uid: UID, node: 'node-2' }))
  assert.deepEqual([kinds, pods.get(UID)?.identity], [['added', 'changed'], 'spiffe://cluster.local/b'])
  assert.equal(problems.length, 2)
  pods.put(podResource({ name: 'web', uid: UID }))
  assert.deepEqual(
    [problems.at(-1), pods.get(UID)?.identity],
    [{ pod: 'default/web', reason: 'it has no label:app' }, undefined],
  )
})

test('the mirror of a static pod is known by the UID that kubelet uses, and never takes the UID of another pod', () => {
  const hash = 'a1b2c3d4e5f60718293a4b5c6d7e8f90'
  const mirrorOf = (uid: string) => ({ 'kubernetes.io/config.mirror': uid, 'kubernetes.io/config.hash': uid })
  const { pods, problems } = podTable({ identity: 'spiffe://{trustDomain}/{pod}' })
  const etcd = podResource({ name: 'etcd', serviceAccount: '', annotations: mirrorOf(hash) })
  pods.put(etcd)
  assert.equal(pods.get(hash)?.identity, 'spiffe://cluster.local/etcd')
  assert.equal(pods.get(etcd.metadata.uid), undefined)

  const web = podResource({ name: 'web', uid: UID })
  pods.put(web)
  for (const stolen of [UID, hash]) pods.put(podResource({ name: 'thief', annotations: mirrorOf(stolen) }))
  pods.put(podResource({ name: 'torn', annotations: { ...mirrorOf(UID), 'kubernetes.io/config.hash': hash } }))
  pods.put(withMetadata(etcd, { annotations: mirrorOf(UID) }))
  assert.deepEqual(
    problems.map(({ pod }) => pod),
    ['default/thief', 'default/thief', undefined, 'default/etcd'],
  )
  assert.deepEqual([pods.get(UID)?.name, pods.get(hash)?.name], ['web', 'etcd'])

  // A pod whose UID is really this one takes precedence over a mirror that claims it.
  pods.delete(web)
  pods.put(podResource({ name: 'early-thief', annotations: mirrorOf(UID) }))
  assert.equal(pods.get(UID)?.name, 'early-thief')
  pods.put(web)
  assert.deepEqual([pods.get(UID)?.name, [...pods.all()].map(({ name }) => name).sort()], ['web', ['etcd', 'web']])

  pods.delete(etcd)
  assert.equal(pods.get(hash), undefined)
})

test('without a service account, as mirrors are, the default template gives no identity', () => {
  assert.equal(identityOf({ serviceAccount: '' }), 'it has no serviceAccount')
})

test('names that could lead out of a folder or a SPIFFE ID are refused, and so are other forms', () => {
  const web = podResource({ name: 'web', uid: UID })
  const objects: readonly unknown[] = [
    undefined,
    7,
    [],
    { metadata: 7, spec: null },
    ...['..', '', '../x', 'a/b', 'A', 'x'.repeat(64), 7, null].map(uid => withMetadata(web, { uid })),
    ...['..', 'a.b', 'A', '-a', 'x'.repeat(64)].map(namespace => withMetadata(web, { namespace })),
    ...['..', 'a..b', 'A', 'a/b', 'x'.repeat(254)].map(name => withMetadata(web, { name })),
    ...['..', 'a/../b', 'x'.repeat(254), 7].map(serviceAccountName => ({
      ...web,
      spec: { ...web.spec, serviceAccountName },
    })),
  ]
  for (const object of objects) {
    const { pods } = podTable()
    pods.put(object)
    pods.delete(object)
    assert.deepEqual([...pods.all()], [], JSON.stringify(object))
  }
})

test('of a pod only what its identity needs is kept, within bounds', () => {
  const labels = Object.fromEntries(Array.from({ length: 1_000 }, (_, index) => [`l${index}`, 'x']))
  const { pods } = podTable({ identity: 'spiffe://{trustDomain}/{annotation:a}', selector: '' })
  pods.put(podResource({ name: 'web', uid: UID, labels, annotations: { a: 'x'.repeat(513), b: 'y' } }))
  const pod = pods.get(UID)
  assert.deepEqual([pod?.labels.size, pod?.annotations.size, pod?.identity], [256, 0, undefined])
})

test('a node has at most 4,096 pods: the others are refused, and each is reported once', () => {
  const { pods, problems } = podTable()
  const all = Array.from({ length: 4_100 }, (_, index) => podResource({ name: `pod-${index}` }))
  for (let times = 0; times < 2; times++) for (const pod of all) pods.put(pod)
  assert.deepEqual(pods.counts, { known: 4_096, chosen: 4_096 })
  assert.equal(problems.length, 4)
  const [first] = all
  if (first) pods.delete(first)
  for (const pod of all.slice(1)) pods.put(pod)
  assert.deepEqual([pods.counts, problems.length], [{ known: 4_096, chosen: 4_096 }, 4])
})

test('a list replaces what is not in it', () => {
  const { pods } = podTable()
  const [a, b, c] = ['a', 'b', 'c'].map(name => podResource({ name }))
  pods.replace([a, b].map(pod => pods.read(pod)))
  assert.ok(pods.isListed)
  pods.replace([b, c, a && withMetadata(a, { name: '..' })].map(pod => pods.read(pod)))
  assert.deepEqual([...pods.all()].map(({ name }) => name).sort(), ['a', 'b', 'c'])
  pods.replace([])
  assert.deepEqual(pods.counts, { known: 0, chosen: 0 })
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainKeyVault } from '@livery/core'
import { FileSecrets } from '@livery/core/file-secrets'
import { MemorySource } from '../../test/memory-source.ts'
import { API, OTHER, WEB } from '../../test/running-server.ts'
import { testBudget } from '../../test/test-budget.ts'
import { SdsServerError } from '../socket/sds-server-error.ts'
import type { Permission } from './permission.ts'
import { AccessPolicy, type SocketAccess } from './policy.ts'

const names = { default: 'default', root: 'ROOTCA', all: 'ALL' }
const caller = { pid: 7, uid: 1001, gid: 100 }
const source = await MemorySource.create(WEB, API, OTHER)

function policyOf(access: SocketAccess): AccessPolicy {
  return new AccessPolicy(access, source, names)
}

function permissionOf(access: SocketAccess): Permission {
  const permission = policyOf(access).admit(caller)
  assert.ok(permission)
  return permission
}

/** The identities that are allowed, by the last part of their names. */
function allowed(access: SocketAccess): string[] {
  return permissionOf(access)
    .everything(100)
    .slice(1)
    .map(name => name.replace(/.*\//, ''))
}

for (const [allow, expected] of [
  [[], []],
  [[WEB], ['web']],
  [['spiffe://cluster.local/ns/default/sa/*'], ['web', 'api']],
  [['spiffe://cluster.local/ns/*/sa/*'], ['web', 'api', 'db']],
  [['spiffe://cluster.local/ns/*/sa/w*b'], ['web']],
  [['spiffe://cluster.local/ns/*/sa/*e*'], ['web']],
  [['spiffe://cluster.local/ns/d*f*u*t/sa/*p*'], ['api']],
  [['spiffe://cluster.local/ns/*/sa/*w*'], []],
  [['spiffe://cluster.local/ns/*/sa/*b*'], []],
  [['spiffe://cluster.local/*'], []],
  [['spiffe://cluster.local/ns/*'], []],
  [['spiffe://cluster.local/**'], ['web', 'api', 'db']],
  [['spiffe://cluster.local/ns/default/**'], ['web', 'api']],
  [['spiffe://cluster.local/ns/default/sa/web/**'], []],
  [['spiffe://cluster.local/ns/d.fault/**', 'spiffe://other.example/**'], []],
  [['spiffe://cluster.local/ns/default/sa/we'], []],
] as const) {
  test(`allow ${JSON.stringify(allow)} means ${expected.join(', ') || 'nothing'}`, () => {
    assert.deepEqual(allowed({ allow }).sort(), [...expected].sort())
  })
}

for (const pattern of [
  '*',
  'cluster.local/*',
  'spiffe://*/ns/default',
  'spiffe://cluster.local',
  'spiffe://cluster.local/',
  'spiffe://cluster.local/**/sa/web',
  'spiffe://cluster.local/a**',
  'spiffe://cluster.local/ns/(.*)',
  'spiffe://Cluster.local/*',
]) {
  test(`the pattern ${pattern} is a configuration error that names it`, () => {
    assert.throws(
      () => policyOf({ allow: [pattern] }),
      error => error instanceof SdsServerError && error.code === 'invalid-config' && error.message.includes(pattern),
    )
  })
}

test('a name that is made to match slowly does not hold the process up, however many stars the pattern has', () => {
  const allow = [`spiffe://cluster.local/ns/${'*-'.repeat(8)}*/sa/web`]
  const permission = permissionOf({ allow })
  const start = process.cpuUsage()
  for (let round = 0; round < 20; round++) {
    const identity = `spiffe://cluster.local/ns/${'-'.repeat(1_900 + round)}/sa/x` as const
    assert.equal(permission.resolve(identity, testBudget()).kind, 'refused')
  }
  const { user, system } = process.cpuUsage(start)
  assert.ok(user + system < 500_000, `${user + system} µs of CPU`)
})

test('default is the only allowed identity, and refused where there is none or another', () => {
  const granted = { kind: 'granted', secret: { kind: 'identity', identity: WEB } }
  assert.deepEqual(permissionOf({ identity: WEB }).resolve('default', testBudget()), granted)
  assert.deepEqual(permissionOf({ allow: [WEB] }).resolve('default', testBudget()), granted)
  assert.deepEqual(
    permissionOf({ allow: ['spiffe://cluster.local/ns/default/sa/w*'] }).resolve('default', testBudget()),
    granted,
  )
  for (const allow of [[], [WEB, API], [WEB, 'spiffe://cluster.local/ns/default/sa/not-issued-yet']]) {
    assert.equal(permissionOf({ allow }).resolve('default', testBudget()).kind, 'refused')
  }
})

test('on demand, default is the only identity that the rules name, never the only one that is held', async () => {
  const web = await MemorySource.create(WEB)
  const resolved = (allow: readonly string[]) => {
    const permission = new AccessPolicy({ allow, onDemand: true }, web, names).admit(undefined)
    return [permission?.resolve('default', testBudget()).kind, permission?.ownIdentities()]
  }
  assert.deepEqual(resolved([WEB]), ['granted', [WEB]])
  assert.deepEqual(resolved(['spiffe://cluster.local/ns/default/sa/*']), ['refused', []])
})

test('the socket of one identity gives no other, though it is named', () => {
  const permission = permissionOf({ identity: WEB })
  assert.equal(permission.resolve(WEB, testBudget()).kind, 'granted')
  assert.equal(permission.resolve(API, testBudget()).kind, 'refused')
  assert.throws(() => policyOf({ identity: WEB, allow: [API] }), { code: 'invalid-config' })
})

test('every caller is allowed the bundle', () => {
  const granted = { kind: 'granted', secret: { kind: 'bundle', trustDomain: 'cluster.local' } }
  const permission = permissionOf({})
  assert.deepEqual(permission.resolve('ROOTCA', testBudget()), granted)
  assert.deepEqual(permission.resolve('spiffe://cluster.local', testBudget()), granted)
  assert.equal(permission.resolve('spiffe://unheard.of', testBudget()).kind, 'unknown')
})

test('every caller is allowed the bundles of all trust domains, as its one identity sees them', () => {
  const all = { kind: 'all-bundles' } as const
  const granted = (access: SocketAccess) => permissionOf(access).resolve('ALL', testBudget())
  assert.deepEqual(granted({}), { kind: 'granted', secret: all })
  assert.deepEqual(granted({ identity: WEB }), { kind: 'granted', secret: { ...all, identity: WEB } })
  assert.ok(permissionOf({}).mayHave(all))
  assert.ok(!permissionOf({ identity: API }).mayHave({ ...all, identity: WEB }))
})

test('where the rules name one identity and no pattern, the bundle is asked for as that one sees it', () => {
  const bundleFor = (access: SocketAccess) => {
    const resolution = permissionOf(access).resolve('ROOTCA', testBudget())
    assert.ok(resolution.kind === 'granted' && resolution.secret.kind === 'bundle')
    assert.deepEqual(permissionOf(access).resolve('spiffe://cluster.local', testBudget()), resolution)
    return resolution.secret.identity
  }
  const allow = ['spiffe://cluster.local/ns/*/sa/*']
  const callers = [{ uid: caller.uid, allow: [WEB] }]
  assert.equal(bundleFor({ identity: WEB }), WEB)
  assert.equal(bundleFor({ allow: [WEB] }), WEB)
  assert.equal(bundleFor({ allow, callers }), WEB)
  for (const access of [
    {},
    { allow },
    { allow: [WEB, API] },
    { allow: [WEB, ...allow] },
    { allow: ['spiffe://other.example/sa/db'] },
  ])
    assert.equal(bundleFor(access), undefined)
  const permission = permissionOf({ allow, callers })
  assert.ok(permission.mayHave({ kind: 'bundle', trustDomain: 'cluster.local', identity: WEB }))
  assert.ok(!permission.mayHave({ kind: 'bundle', trustDomain: 'cluster.local', identity: API }))
})

test('an allowed identity that nobody holds is unknown, or where it is served on demand granted, and held once it is requested', async () => {
  const own = await MemorySource.create()
  const identity = 'spiffe://cluster.local/ns/default/sa/new'
  const access = { allow: ['spiffe://cluster.local/ns/default/sa/*'] }
  const permit = (onDemand: boolean) => new AccessPolicy({ ...access, onDemand }, own, names).admit(undefined)
  const resolve = (onDemand: boolean, name: string) => permit(onDemand)?.resolve(name, testBudget()).kind
  assert.equal(resolve(false, identity), 'unknown')
  assert.deepEqual([...own.identities()], [])
  assert.equal(resolve(true, OTHER), 'refused')
  assert.deepEqual([...own.identities()], [])
  assert.equal(resolve(true, identity), 'granted')
  assert.deepEqual([...own.identities()], [])
  own.request(identity)
  assert.deepEqual([...own.identities()], [identity])
})

test('with callers, only those are let in for whom a rule holds', () => {
  const isIn = (rule: object) => policyOf({ callers: [rule] }).admit(caller) !== undefined
  assert.ok(isIn({ uid: 1001 }))
  assert.ok(isIn({ gid: 100 }))
  assert.ok(isIn({ uid: 1001, gid: 100 }))
  assert.ok(!isIn({ uid: 0 }))
  assert.ok(!isIn({ uid: 1001, gid: 0 }))
  assert.ok(!isIn({ uid: 0, gid: 100 }))
  assert.equal(policyOf({ callers: [] }).admit(caller), undefined)
  assert.equal(policyOf({ callers: [{ uid: 1001 }] }).admit(undefined), undefined)
  assert.throws(() => policyOf({ callers: [{}] }), { code: 'invalid-config' })
})

test('a caller gets the files that one of its rules and the socket allow, and no others', async () => {
  const own = await MemorySource.create()
  own.files = new FileSecrets({
    clock: own.clock,
    vault: plainKeyVault,
    folders: ['/etc/a', '/etc/b'],
    expired: 'withhold',
    onWatchError: error => assert.fail(String(error)),
    report: () => {},
  })
  const [a, b] = ['file-cert:/etc/a/cert.pem~/etc/a/key.pem', 'file-cert:/etc/b/cert.pem~/etc/b/key.pem']
  const mixed = 'file-cert:/etc/a/cert.pem~/etc/b/key.pem'
  const below = 'file-cert:/etc/a/below/cert.pem~/etc/a/below/key.pem'
  const beside = 'file-cert:/etc/a.old/cert.pem~/etc/a.old/key.pem'
  const [onlyA, both] = ['file-cert:/etc/a/*', 'file-cert:/etc/**']
  const allowedOf = (access: SocketAccess) => {
    const permission = new AccessPolicy(access, own, names).admit(caller)
    return [a, b, mixed, below, beside].filter(name => permission?.resolve(name, testBudget()).kind !== 'refused')
  }
  const uid = 1001
  assert.deepEqual(allowedOf({ allow: ['spiffe://cluster.local/**'] }), [])
  assert.deepEqual(allowedOf({ allow: [onlyA] }), [a])
  assert.deepEqual(allowedOf({ allow: [onlyA, 'file-cert:/etc/b/*'] }), [a, b])
  assert.deepEqual(allowedOf({ allow: ['file-cert:/etc/a/**'] }), [a, below])
  assert.deepEqual(allowedOf({ allow: [both] }), [a, b, mixed, below, beside])
  assert.deepEqual(allowedOf({ allow: [both], callers: [{ uid, allow: [onlyA] }] }), [a])
  assert.deepEqual(allowedOf({ allow: [onlyA], callers: [{ uid, allow: [both] }] }), [a])
  assert.deepEqual(allowedOf({ allow: [both], callers: [{ uid, allow: [WEB] }] }), [])
  assert.deepEqual(allowedOf({ callers: [{ uid, allow: [b] }] }), [b])
  assert.deepEqual(allowedOf({ identity: WEB }), [])
  assert.deepEqual(allowedOf({ identity: WEB, allow: [onlyA] }), [a])
  assert.deepEqual(allowedOf({ identity: WEB, allow: [onlyA], callers: [{ uid, allow: [both] }] }), [a])
  own.files[Symbol.dispose]()
})

test('a caller gets what one of its rules and the socket allow', () => {
  const all = ['spiffe://cluster.local/ns/default/sa/*']
  const uid = 1001
  assert.deepEqual(allowed({}), [])
  assert.deepEqual(allowed({ allow: all, callers: [{ uid, allow: [WEB, OTHER] }] }), ['web'])
  assert.deepEqual(allowed({ allow: all, callers: [{ uid }] }), ['web', 'api'])
  assert.deepEqual(allowed({ callers: [{ uid, allow: [OTHER] }] }), ['db'])
  assert.deepEqual(
    allowed({
      callers: [
        { uid, allow: [WEB] },
        { gid: 100, allow: [API] },
        { uid: 0, allow: [OTHER] },
        { gid: 0, allow: [OTHER] },
      ],
    }),
    ['web', 'api'],
  )
  assert.deepEqual(allowed({ identity: API, callers: [{ uid }] }), ['api'])
  assert.deepEqual(allowed({ identity: API, callers: [{ uid, allow: [WEB] }] }), [])
})

test('what default means on the socket of one identity is known without a look at the others', async () => {
  const many = await MemorySource.create(WEB)
  many.identities = () => {
    throw new Error('ten thousand of them')
  }
  const permission = new AccessPolicy({ identity: WEB }, many, names).admit(caller)
  assert.deepEqual(permission?.resolve('default', testBudget()), {
    kind: 'granted',
    secret: { kind: 'identity', identity: WEB },
  })
})

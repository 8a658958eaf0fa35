import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CAError, type SpiffeId } from '@livery/core/plugin'
import { fileMountOptions, mountOf } from './config.ts'
import { PathTemplate } from './path-template.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'

test('each placeholder stands for its part of the identity', () => {
  const fill = (text: string, identity: SpiffeId) => new PathTemplate('folder', text).fill(identity)
  assert.equal(fill('/ids/{trustDomain}/{namespace}/{serviceAccount}', WEB), '/ids/cluster.local/default/web')
  assert.equal(fill('/ids/{name}.d', WEB), '/ids/web.d')
  assert.equal(fill('/ids/{path}', WEB), '/ids/ns/default/sa/web')
  assert.equal(fill('/ids/{path}/{name}', 'spiffe://cluster.local/vm-7'), '/ids/vm-7/vm-7')
  assert.equal(fill('/etc/certs', WEB), '/etc/certs')
  assert.equal(new PathTemplate('folder', '/etc/certs').fixed, '/etc/certs')
  assert.equal(new PathTemplate('folder', '/ids/{name}').fixed, undefined)
})

const REFUSED: Readonly<Record<string, readonly [string, SpiffeId, RegExp]>> = {
  'an identity without a namespace': ['/{namespace}', 'spiffe://cluster.local/web', /no \{namespace\}.*Use \{path\}/],
  'an identity of another form': ['/{serviceAccount}', 'spiffe://cluster.local/ns/a/sa/b/c', /no \{serviceAccount\}/],
  'a part that is ..': ['/{path}', 'spiffe://cluster.local/ns/../../etc', /it is not a SPIFFE ID/],
  'a part with an encoded slash': ['/{name}', 'spiffe://cluster.local/..%2fshadow', /it is not a SPIFFE ID/],
  'a part with a NUL': ['/{name}', 'spiffe://cluster.local/a\0b', /it is not a SPIFFE ID/],
  'the links of a volume': ['/{name}', 'spiffe://cluster.local/ns/default/sa/..data', /begins with a dot/],
  'a hidden folder on the way': ['/{path}', 'spiffe://cluster.local/.ssh/keys', /begins with a dot/],
  'a trust domain of dots': ['/{trustDomain}', 'spiffe://../web', /begins with a dot/],
}
for (const [what, [template, identity, reason]] of Object.entries(REFUSED)) {
  test(`no path is made for ${what}`, () => {
    assert.throws(
      () => new PathTemplate('folder', template).fill(identity),
      error => error instanceof CAError && error.code === 'denied' && reason.test(error.message),
    )
  })
}

test('an unknown placeholder and a lonely brace are refused with the field and those that there are', () => {
  for (const [text, found] of [
    ['/ids/{ns}', '{ns}'],
    ['/ids/{}', '{}'],
    ['/ids/{name', '{'],
    ['/ids/name}', '}'],
    ['/ids/{{name}}', '{'],
  ] as const) {
    assert.throws(() => new PathTemplate('folder', text), {
      name: 'TypeError',
      message: `Cannot use folder ${JSON.stringify(text)}: ${found} is not a placeholder. The placeholders are {trustDomain}, {namespace}, {serviceAccount}, {name}, {path}; a path cannot have other braces.`,
    })
  }
})

test('the well-known layouts have their folders and names, which can be set one by one', () => {
  const files = (config: Partial<Parameters<typeof mountOf>[0]>) => {
    const { chain, key, roots } = mountOf({ layout: 'istio', ...config })
    return [chain.text, key.text, roots.text]
  }
  assert.deepEqual(files({}), ['/etc/certs/cert-chain.pem', '/etc/certs/key.pem', '/etc/certs/root-cert.pem'])
  const credentials = '/var/run/secrets/workload-spiffe-credentials'
  assert.deepEqual(
    files({ layout: 'workload-spiffe-credentials' }),
    ['cert-chain.pem', 'key.pem', 'root-cert.pem'].map(name => `${credentials}/${name}`),
  )
  assert.deepEqual(
    files({ layout: 'gke' }),
    ['certificates.pem', 'private_key.pem', 'ca_certificates.pem'].map(name => `${credentials}/${name}`),
  )
  assert.deepEqual(files({ layout: 'kubernetes-tls', folder: '/ids/{name}', roots: '/etc/roots.pem' }), [
    '/ids/{name}/tls.crt',
    '/ids/{name}/tls.key',
    '/etc/roots.pem',
  ])
  assert.deepEqual(fileMountOptions.layout.choices, ['istio', 'workload-spiffe-credentials', 'gke', 'kubernetes-tls'])
})

test('the layout kubernetes-tls needs a folder', () => {
  assert.throws(() => mountOf({ layout: 'kubernetes-tls' }), {
    name: 'TypeError',
    message: /^Cannot use layout "kubernetes-tls": folder is missing\. Name it, such as /,
  })
})

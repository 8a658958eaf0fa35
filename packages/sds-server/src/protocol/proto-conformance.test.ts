/** Holds our .proto files against the official ones that @grpc/grpc-js-xds ships. */
import assert from 'node:assert/strict'
import { existsSync, globSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import protobuf from 'protobufjs'

const ours = fileURLToPath(new URL('../../proto', import.meta.url))
const require = createRequire(import.meta.url)
const xds = dirname(require.resolve('@grpc/grpc-js-xds/package.json'))
/** Google's own files, for their options. */
const google = dirname(require.resolve('protobufjs/package.json'))
const official = ['envoy-api', 'xds', 'googleapis', 'protoc-gen-validate'].map(name => join(xds, 'deps', name))

/** Files whose official form lies elsewhere, or not with Envoy's. */
const SPLIT: Record<string, string> = {
  'envoy/extensions/transport_sockets/tls/v3/secret.proto': 'envoy/extensions/transport_sockets/tls/v3/common.proto',
}
const NOT_ENVOYS = ['grpc/health/v1/health.proto', 'spiffe/workload/workload.proto']

function load(roots: readonly string[], files: readonly string[]): protobuf.Root {
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) =>
    [...roots, google].map(directory => join(directory, target)).find(path => existsSync(path)) ?? target
  root.loadSync([...files])
  root.resolveAll()
  return root
}

function* messagesOf(namespace: protobuf.NamespaceBase): Generator<protobuf.Type> {
  for (const nested of namespace.nestedArray) {
    if (nested instanceof protobuf.Type) yield nested
    if (nested instanceof protobuf.Namespace) yield* messagesOf(nested)
  }
}

const files = globSync('**/*.proto', { cwd: ours }).filter(file => !NOT_ENVOYS.includes(file))
const mine = load([ours], files)
const theirs = load(official, [...files, ...Object.values(SPLIT)])

function describe(field: protobuf.Field): object {
  const { id, type, resolvedType, repeated, map } = field
  const keyType = field instanceof protobuf.MapField ? field.keyType : undefined
  return { id, type: resolvedType?.fullName ?? type, repeated, map, keyType }
}

for (const message of messagesOf(mine)) {
  if (message.fullName.startsWith('.google.protobuf')) continue
  test(`${message.fullName} has the fields of the official message`, () => {
    const counterpart = theirs.lookupType(message.fullName)
    assert.ok(message.fieldsArray.length > 0)
    for (const field of message.fieldsArray) {
      const other = counterpart.fields[field.name]
      assert.ok(other, `${field.name} is not an official field`)
      assert.deepEqual(describe(field), describe(other), field.name)
    }
  })
}

test('every message that is generated was compared', () => {
  const names = [...messagesOf(mine)].map(message => message.fullName)
  for (const name of [
    'DiscoveryRequest',
    'DiscoveryResponse',
    'DeltaDiscoveryRequest',
    'DeltaDiscoveryResponse',
    'Resource',
  ]) {
    assert.ok(names.includes(`.envoy.service.discovery.v3.${name}`), name)
  }
  assert.ok(names.includes('.envoy.extensions.transport_sockets.tls.v3.Secret'))
})

test("Envoy's extensions and metadata are not decoded", () => {
  assert.deepEqual(Object.keys(mine.lookupType('envoy.config.core.v3.Node').fields), [
    'id',
    'cluster',
    'userAgentName',
    'userAgentBuildVersion',
  ])
})

test("the methods are the official service's", async () => {
  const { SDS_SERVICE } = await import('../grpc/discovery-service.ts')
  const root = load(official, ['envoy/service/secret/v3/sds.proto'])
  assert.deepEqual(Object.keys(root.lookupService(SDS_SERVICE).methods).sort(), [
    'DeltaSecrets',
    'FetchSecrets',
    'StreamSecrets',
  ])
})

test('what is served of the Workload API has the fields that the plugin which consumes it reads', () => {
  const consumed = fileURLToPath(new URL('../../../ca-plugins/proto', import.meta.url))
  const file = ['spiffe/workload/workload.proto']
  const served = load([ours], file)
  for (const message of messagesOf(load([consumed], file)))
    for (const field of message.fieldsArray)
      assert.deepEqual(
        describe(served.lookupType(message.fullName).fields[field.name] ?? assert.fail(field.name)),
        describe(field),
      )
})

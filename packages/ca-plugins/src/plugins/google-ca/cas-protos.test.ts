/** Holds our .proto files of Certificate Authority Service against the official ones, which Google's client library ships. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import protobuf from 'protobufjs'

const FILE = 'google/cloud/security/privateca/v1/service.proto'
const SERVICE = 'google.cloud.security.privateca.v1.CertificateAuthorityService'

const require = createRequire(import.meta.url)
const library = dirname(require.resolve('@google-cloud/security-private-ca/package.json'))
/** The official files import these options. */
const gax = dirname(dirname(dirname(require.resolve('google-gax', { paths: [library] }))))

function load(...folders: readonly string[]): protobuf.Root {
  const root = new protobuf.Root()
  root.resolvePath = (_origin, target) =>
    folders.map(folder => join(folder, target)).find(path => existsSync(path)) ?? target
  root.loadSync(FILE)
  root.resolveAll()
  return root
}

const ours = load(fileURLToPath(new URL('../../../proto', import.meta.url)))
const official = load(join(library, 'build', 'protos'), join(gax, 'build', 'protos'))

function* typesOf(namespace: protobuf.NamespaceBase): Generator<protobuf.Type | protobuf.Enum> {
  for (const nested of namespace.nestedArray) {
    if (nested instanceof protobuf.Type || nested instanceof protobuf.Enum) yield nested
    if (nested instanceof protobuf.Namespace) yield* typesOf(nested)
  }
}

const types = [...typesOf(ours)].filter(({ fullName }) => fullName.startsWith('.google.cloud'))

for (const type of types)
  test(`${type.fullName} has the numbers and types of the official one`, () => {
    if (type instanceof protobuf.Enum) {
      const { values } = official.lookupEnum(type.fullName)
      for (const [name, number] of Object.entries(type.values)) assert.equal(values[name], number, name)
      return
    }
    const counterpart = official.lookupType(type.fullName)
    for (const field of type.fieldsArray) {
      const other = counterpart.fields[field.name]
      assert.ok(other, `${field.name} is not an official field`)
      assert.deepEqual(shapeOf(field), shapeOf(other), field.name)
    }
  })

test('every message is compared, and the methods are official ones', () => {
  assert.deepEqual(types.map(({ name }) => name).sort(), [
    'CertChain',
    'Certificate',
    'CreateCertificateRequest',
    'FetchCaCertsRequest',
    'FetchCaCertsResponse',
    'SubjectRequestMode',
  ])
  const { methods } = official.lookupService(SERVICE)
  for (const { name, requestType, responseType } of ours.lookupService(SERVICE).methodsArray)
    assert.deepEqual([methods[name]?.requestType, methods[name]?.responseType], [requestType, responseType], name)
})

function shapeOf({ id, type, resolvedType, repeated }: protobuf.Field): object {
  return { id, type: resolvedType?.fullName ?? type, repeated }
}

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CLUSTER, IdentityTokens, POOL } from '../../../test/google-ca-setup.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { type GoogleCaConfig, googleCaOptions } from './config.ts'
import { createGoogleCa, googleCa } from './plugin.ts'

const cas: GoogleCaConfig = { service: 'cas', subjectMode: 'reflected-spiffe', pool: POOL }
const meshCa: GoogleCaConfig = { service: 'mesh-ca', subjectMode: 'reflected-spiffe' }

const misplaced: readonly (readonly [GoogleCaConfig, RegExp])[] = [
  [{ service: 'cas', subjectMode: 'csr' }, /pool is missing/],
  [{ ...cas, clusterUrl: CLUSTER }, /clusterUrl ".*": service "cas" has no such setting/],
  [
    { ...cas, certificateTemplate: 'projects/p/locations/us-east1/certificateTemplates/svid' },
    /certificateTemplate ".*": it is in us-east1, and the pool in europe-west1/,
  ],
  [{ ...cas, endpoint: 'privateca.googleapis.com:0' }, /port 0/],
  [{ ...cas, endpoint: 'https://privateca.googleapis.com' }, /endpoint/],
  [{ ...cas, endpoint: 'http://privateca.googleapis.com:443' }, /endpoint "http.*": tokens would cross the network/],
  [{ ...cas, endpoint: 'http://10.0.0.1:80' }, /endpoint "http:\/\/10.0.0.1:80": tokens/],
  [{ ...cas, credentialsFile: '/wif.json' }, /credentialsFile "\/wif.json": credentials are configured as well/],
  [{ ...meshCa, pool: POOL }, /pool ".*": service "mesh-ca" has no such setting/],
  [{ ...meshCa, subjectMode: 'csr' }, /subjectMode "csr"/],
  [{ ...meshCa, credentialsFile: '/wif.json' }, /credentialsFile/],
]
for (const [config, reason] of misplaced)
  test(`values that do not go together are a TypeError with the field and a remedy: ${reason.source}`, () => {
    const check = () => googleCa.check?.(config, new Set(['tokenFile']))
    assert.throws(check, (error: unknown) => {
      assert.ok(error instanceof TypeError)
      assert.match(error.message, reason)
      assert.match(error.message, /\. [A-Z].*\.$/)
      return true
    })
  })

test('without configured credentials Mesh CA cannot be asked', async () => {
  await assert.rejects(createGoogleCa(pluginContext(), meshCa), /credentials is missing\. Set credentials/)
})

test('a client is made while nothing is there to answer, and closed again', async () => {
  const context = pluginContext({ credentials: new IdentityTokens() })
  for (const config of [cas, meshCa]) {
    const client = await googleCa.create(context, config)
    await client[Symbol.asyncDispose]()
  }
})

const values: readonly (readonly [keyof typeof googleCaOptions, string, boolean])[] = [
  ['pool', POOL, true],
  ['pool', 'projects/example.com:p/locations/europe-west1/caPools/a', true],
  ['pool', 'workloads', false],
  ['pool', `${POOL}/certificateAuthorities/a`, false],
  ['certificateTemplate', 'projects/p/locations/europe-west1/certificateTemplates/svid', true],
  ['certificateTemplate', 'svid', false],
  ['issuingCa', 'ca-1', true],
  ['issuingCa', `${POOL}/certificateAuthorities/ca-1`, false],
  ['endpoint', '127.0.0.1:443', true],
  ['endpoint', '127.0.0.1', false],
  ['clusterUrl', CLUSTER, true],
  ['clusterUrl', 'cluster-1', false],
]
for (const [name, value, good] of values)
  test(`${name} ${JSON.stringify(value)} is ${good ? 'taken' : 'refused with the form that it should have'}`, () => {
    const option = googleCaOptions[name]
    const problem = 'problem' in option ? option.problem(value) : undefined
    if (good) assert.equal(problem, undefined)
    else assert.match(problem ?? '', /^is not an? .*\. Write /)
  })

test('DNS names are for certificates whose names come from the CSR', () => {
  const siblings = new Set(['dnsNames'] as const)
  assert.throws(() => googleCa.check?.(cas, siblings), { option: 'subjectMode', message: /write subjectMode: csr/ })
  googleCa.check?.({ ...cas, subjectMode: 'csr' }, siblings)
})

test('a package that is not installed is named with the command that installs it', async () => {
  const missing = Object.assign(new Error("Cannot find package 'google-auth-library'"), {
    code: 'ERR_MODULE_NOT_FOUND',
  })
  await assert.rejects(
    createGoogleCa(pluginContext({}), cas, () => Promise.reject(missing)),
    /the package google-auth-library is not installed\..*: npm install google-auth-library$/,
  )
})

test('with configured credentials neither service needs the library of Google', async () => {
  const absent = () => Promise.reject(new Error('it was loaded'))
  const context = pluginContext({ credentials: new IdentityTokens() })
  for (const config of [cas, meshCa]) {
    const client = await createGoogleCa(context, config, absent)
    await client[Symbol.asyncDispose]()
  }
})

import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { CAError } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../../test/citadel-setup.ts'
import { IdentityTokens, setUpGoogle, WEB } from '../../../test/google-ca-setup.ts'
import { Refusal } from '../../../test/google-stand-in.ts'
import { GoogleTokenServer, type TokenAnswer } from '../../../test/google-token-server.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { createGoogleCa } from './plugin.ts'

const PROVIDER = '//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/cluster'
const SUBJECT_TOKEN = 'opaque-subject-token'

function issued(token: string): TokenAnswer {
  const json = { access_token: token, issued_token_type: 'x', token_type: 'Bearer', expires_in: 3600 }
  return { status: 200, json }
}

function refused(code: number): TokenAnswer {
  return { status: code, json: { error: 'invalid_grant', error_description: `${SUBJECT_TOKEN} has expired` } }
}

/** A workload identity federation file as `gcloud iam workload-identity-pools create-cred-config` makes it. */
function federation(address: string, file: string): string {
  return JSON.stringify({
    type: 'external_account',
    audience: PROVIDER,
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    token_url: `http://${address}/v1/token`,
    credential_source: { file },
  })
}

async function setUpFederation(t: TestContext) {
  const tokens = await GoogleTokenServer.start()
  t.after(() => tokens[Symbol.asyncDispose]())
  tokens.answer = () => issued(`access-token.${WEB}`)
  const directory = temporaryFolder(t)
  const credentialsFile = join(directory, 'wif.json')
  await replaceFile(join(directory, 'token'), SUBJECT_TOKEN)
  await replaceFile(credentialsFile, federation(tokens.address, join(directory, 'token')))
  const setup = await setUpGoogle(t, { service: 'cas', withoutCredentials: true, config: { credentialsFile } })
  return { ...setup, setup, tokens, directory, credentialsFile }
}

test('a workload identity federation file is exchanged for an access token, once for many calls', async t => {
  const { client, server, tokens } = await setUpFederation(t)
  const requests = await Promise.all(Array.from({ length: 16 }, () => workloadRequest(WEB)))
  await Promise.all(requests.map(request => client.issue(request)))
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls.at(-1)?.headers['authorization'], `Bearer access-token.${WEB}`)
  const [exchange] = tokens.requests
  assert.equal(tokens.requests.length, 1)
  assert.equal(exchange?.path, '/v1/token')
  assert.equal(exchange.body.get('grant_type'), 'urn:ietf:params:oauth:grant-type:token-exchange')
  assert.equal(exchange.body.get('audience'), PROVIDER)
  assert.equal(exchange.body.get('scope'), 'https://www.googleapis.com/auth/cloud-platform')
  assert.equal(exchange.body.get('subject_token'), SUBJECT_TOKEN)
})

test('when the service refuses the token, or the file has changed, another one is got', async t => {
  const { client, server, setup, tokens, directory, credentialsFile } = await setUpFederation(t)
  setup.behaviour = () => Promise.reject(new Refusal(status.UNAUTHENTICATED, 'expired'))
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unauthenticated', /grants of .*wif\.json/))
  setup.behaviour = undefined
  tokens.answer = () => issued(`second-token.${WEB}`)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls.at(-1)?.headers['authorization'], `Bearer second-token.${WEB}`)
  tokens.answer = () => issued(`third-token.${WEB}`)
  await replaceFile(credentialsFile, `${federation(tokens.address, join(directory, 'token'))}\n`)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls.at(-1)?.headers['authorization'], `Bearer third-token.${WEB}`)
})

const failures: readonly (readonly [string, TokenAnswer, 'unauthenticated' | 'unavailable', RegExp])[] = [
  ['a refusal', refused(400), 'unauthenticated', /answered 400 invalid_grant\. Check the provider/],
  ['an internal error', refused(501), 'unavailable', /answered 501/],
  ['no token', { status: 200, json: {} }, 'unauthenticated', /gives no token|cannot use them/],
]
for (const [what, answer, code, reason] of failures)
  test(`${what} of the token service is ${code}, and the subject token is in no message`, async t => {
    const { client, server, tokens } = await setUpFederation(t)
    tokens.answer = () => answer
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: Error) => {
      assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)} ${error.cause}`, /opaque-subject-token/)
      return isCAError(code, reason)(error)
    })
    assert.equal(server.calls.length, 0)
  })

test('a token service that is down is unavailable', async t => {
  const { client, tokens } = await setUpFederation(t)
  await tokens[Symbol.asyncDispose]()
  await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /cannot be reached/))
})

test('an exchange that does not end is given up with the request, and with the client', async t => {
  const { client, tokens } = await setUpFederation(t)
  tokens.answer = () => undefined
  const abort = new AbortController()
  const reason = new CAError('timeout', 'too late')
  const arrived = tokens.arrived()
  const issuing = assert.rejects(client.issue(await workloadRequest(WEB, { signal: abort.signal })), reason)
  await arrived
  abort.abort(reason)
  await issuing
  const waiting = assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable', /is closed/))
  await client[Symbol.asyncDispose]()
  await waiting
})

test('a file that is missing, or no credentials, says so without its content', async t => {
  const { client, credentialsFile, directory } = await setUpFederation(t)
  const wrong: readonly (readonly [string, RegExp])[] = [
    ['{ "private_key": "hush" ', /is not JSON of type external_account or service_account/],
    ['null', /is not JSON of type/],
    ['{ "type": "authorized_user", "refresh_token": "hush" }', /is not JSON of type/],
    ['{ "type": "external_account", "hush": true }', /cannot use them/],
    ['{ "type": "service_account", "client_email": "a@b", "private_key": "hush" }', /cannot/],
    [federation('127.0.0.1:9', join(directory, 'absent')), /absent cannot be read \(ENOENT\)|cannot use them/],
  ]
  for (const [content, reason] of wrong) {
    await replaceFile(credentialsFile, content)
    await assert.rejects(client.issue(await workloadRequest(WEB)), (error: Error) => {
      assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)} ${error.cause}`, /hush/)
      assert.match(error.message, /the credentials in .*wif\.json/)
      return isCAError('unauthenticated', reason)(error)
    })
  }
})

test('a credentials file that is not there is named', async t => {
  const setup = await setUpGoogle(t, {
    service: 'cas',
    withoutCredentials: true,
    config: { credentialsFile: '/absent/wif.json' },
  })
  await assert.rejects(
    setup.client.issue(await workloadRequest(WEB)),
    isCAError('unauthenticated', /\/absent\/wif\.json cannot be read \(ENOENT\)\. Mount it/),
  )
})

test("credentials for which nothing is configured leave it to Google's library", async t => {
  const { server, tokens, config } = await setUpFederation(t)
  const credentials = Object.assign(new IdentityTokens(), { isConfigured: () => false })
  await using client = await createGoogleCa(pluginContext({ credentials }), config)
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls[0]?.headers['authorization'], `Bearer access-token.${WEB}`)
  assert.equal(tokens.requests.length, 1)
  assert.equal(credentials.requests.length, 0)
})

test('an identity with its own token file needs configured credentials', async t => {
  const { client } = await setUpFederation(t)
  await assert.rejects(
    client.issue(await workloadRequest(WEB, { tokenFile: '/token' })),
    isCAError('unauthenticated', /its own tokenFile\. Set credentials/),
  )
})

test("without a file the metadata server of the machine is asked, as Google's library finds it", async t => {
  const metadata = await GoogleTokenServer.start()
  t.after(() => metadata[Symbol.asyncDispose]())
  metadata.answer = ({ path }) =>
    path.includes('/token') ? issued(`metadata-token.${WEB}`) : { status: 200, json: { universe: 'googleapis.com' } }
  setEnvironment(t, {
    GCE_METADATA_HOST: metadata.address,
    METADATA_SERVER_DETECTION: 'assume-present',
    HOME: temporaryFolder(t),
  })
  const { client, server } = await setUpGoogle(t, { service: 'cas', withoutCredentials: true })
  await client.issue(await workloadRequest(WEB))
  assert.equal(server.calls[0]?.headers['authorization'], `Bearer metadata-token.${WEB}`)
  assert.equal(metadata.requests[0]?.headers['metadata-flavor'], 'Google')
})

test('on a machine without any credentials it says so', async t => {
  setEnvironment(t, { METADATA_SERVER_DETECTION: 'none', HOME: temporaryFolder(t) })
  const { client } = await setUpGoogle(t, { service: 'cas', withoutCredentials: true })
  await assert.rejects(
    client.issue(await workloadRequest(WEB)),
    isCAError('unauthenticated', /there are none on this machine\. Set credentialsFile or credentials/),
  )
})

/** The variables that Google's library reads, restored after the test. */
function setEnvironment(t: TestContext, values: Readonly<Record<string, string>>): void {
  const cleared = { GOOGLE_APPLICATION_CREDENTIALS: undefined, ...values }
  for (const [name, value] of Object.entries(cleared)) {
    const before = process.env[name]
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
    t.after(() => {
      if (before === undefined) delete process.env[name]
      else process.env[name] = before
    })
  }
}

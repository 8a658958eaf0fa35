/** Built-in plugins at a CA that quotes every token it was ever sent, in any answer: no error of any call has one. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { workloadRequest } from '@livery/ca-plugins/testing'
import { type CAClient, SystemClock } from '@livery/core/plugin'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { loadCA } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { PluginCounters } from '../observe/plugin-counters.ts'
import { Registry } from '../observe/prometheus.ts'
import { createCAClient } from './create-ca-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'

const TOKENS = {
  'of Vault': 'hvs.CAESIJvPd1kCmV9a0jR7wq',
  'of an older Vault': 's.Gn3kP0aXw1qZt7Yb4RmLc8Ve',
  'that is a UUID': '5f0c2d1e-9b7a-4c36-8e21-d4b6a0f3c972',
  'with characters that are escaped': 'p+q/r=s&t"u<v>w\\x',
}

/** How a server may quote: as it came, encoded, escaped, in the place where a text is cut. */
const FORMS: Readonly<Record<string, (token: string) => string>> = {
  raw: token => `bad token ${token}`,
  base64: token => `bad token ${Buffer.from(`user:${token}`).toString('base64')}`,
  hex: token => `bad token ${Buffer.from(token).toString('hex')}`,
  URL: token => `at /login?as=${encodeURIComponent(token)}`,
  JSON: token => `{"given":${JSON.stringify(token)}}`,
  cut: token => `${'x '.repeat(143)}${token} and ${token}`,
}

/** Answers every call with an error in which each token is quoted that came with it or with an earlier one. */
async function echo(t: TestContext, form: (token: string) => string, login?: string) {
  const seen = new Set<string>()
  const server = createServer((request, response) => {
    const { authorization = '', 'x-vault-token': vault } = request.headers
    for (const token of [authorization.replace(/^\S+ ?/, ''), vault]) if (typeof token === 'string') seen.add(token)
    let body = ''
    request.on('data', (part: Buffer) => {
      body += part
    })
    request.on('end', () => {
      const { ott, jwt }: { readonly ott?: string; readonly jwt?: string } = body === '' ? {} : JSON.parse(body)
      for (const token of [ott, jwt]) if (token !== undefined) seen.add(token)
      seen.delete('')
      const isLogin = login !== undefined && request.url?.endsWith('/login')
      const text = [...seen].map(form).join('; ')
      const errors = { kind: 'Status', message: text, reason: 'Invalid', errors: [text] }
      const answer = isLogin ? { auth: { client_token: login, lease_duration: 3_600, renewable: false } } : errors
      response.writeHead(isLogin ? 200 : 400, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
    })
  })
  await listening(server)
  t.after(() => server.close())
  t.after(() => server.closeAllConnections())
  return { address: `http://127.0.0.1:${portOf(server)}`, seen }
}

const log = await createLogger({ level: 'silent', format: 'json' })
after(() => log[Symbol.asyncDispose]())

async function create(t: TestContext, ca: object, token: string): Promise<CAClient> {
  const folder = temporaryFolder(t)
  const file = join(folder, 'livery.yaml')
  await writeFile(join(folder, 'token'), token)
  await writeFile(file, JSON.stringify({ ca }))
  const loaded = await loadCA({ file, environment: {}, workingDirectory: folder, terminal: false })
  const stack = new AsyncDisposableStack()
  t.after(() => stack.disposeAsync())
  const clock = stack.use(new SystemClock())
  return await createCAClient(
    loaded,
    { clock, logger: log.logger, counters: new PluginCounters(new Registry()) },
    stack,
  )
}

/** Has every call fail, twice: the second meets a server that has seen more. */
async function errorsOf(client: CAClient): Promise<readonly string[]> {
  const texts: string[] = []
  const note = (error: unknown) => void texts.push(String(error))
  for (const _ of [1, 2]) {
    await client.issue(await workloadRequest(WEB)).then(() => assert.fail('it issued'), note)
    await client.trustBundle?.({ signal: AbortSignal.timeout(10_000) }).then(() => assert.fail('it listed'), note)
  }
  return texts
}

/** Remains of a token in a text: eight of its characters, plain or encoded. */
function remains(text: string, token: string): readonly string[] {
  const forms = [token, Buffer.from(`user:${token}`).toString('base64').slice(8), Buffer.from(token).toString('hex')]
  return forms.flatMap(form =>
    Array.from({ length: form.length - 7 }, (_, at) => form.slice(at, at + 8)).filter(part => text.includes(part)),
  )
}

const PLUGINS: Readonly<Record<string, { readonly ca: (address: string) => object; readonly login?: string }>> = {
  vault: { ca: address => ({ plugin: 'vault', address, role: 'workloads' }) },
  'vault with a login': {
    ca: address => ({ plugin: 'vault', address, role: 'workloads', kubernetes: { role: 'livery' } }),
    login: 'b1946ac9-2492-d234-7c6b-2f1b0d5a8e11',
  },
  'step-ca': { ca: address => ({ plugin: 'step-ca', address }) },
}

for (const [plugin, { ca, login }] of Object.entries(PLUGINS))
  for (const [form, quote] of Object.entries(FORMS))
    test(`${plugin}: no call has a token in its error that the CA quotes (${form})`, async t => {
      for (const [kind, token] of Object.entries(TOKENS)) {
        const { address, seen } = await echo(t, quote, login)
        const section = { tokenFile: 'token', ...ca(address) }
        for (const each of [section, { plugin: 'failover', cas: [section, section] }]) {
          const errors = await errorsOf(await create(t, each, token))
          assert.ok(seen.has(token) && (login === undefined || seen.has(login)), kind)
          assert.ok(errors.length >= 2)
          for (const error of errors) for (const each of seen) assert.deepEqual(remains(error, each), [], error)
        }
      }
    })

/** A plugin's text reaches the log, the ledger and a terminal as one line without credentials. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { listening, portOf, temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { writePluginModule } from './plugin-module.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const TOKEN = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ3ZWIifQ.c2lnbmF0dXJl'
const KEY =
  '-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\\n-----END PRIVATE KEY-----'
/** As the text of a JavaScript string. */
const EVIL = `\\u001b[2Jgone\\nINFO forged: line\\u2028x\\u202ey \\ud800 Bearer ${TOKEN} password=hunter2 ${KEY} end`
const SECRET = /hunter2|eyJ|MIIE|PRIVATE KEY/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]|\p{Cs}/u

test('a plugin that throws and logs what it should not: log, /explain and livery explain are clean', async t => {
  const cwd = temporaryFolder(t)
  await writePluginModule(cwd, {
    onIssue: `console.log("${EVIL}"); context.log.warn("logged ${EVIL}"); throw new CAError('denied', "thrown ${EVIL}", { cause: new Error("${EVIL}") })`,
  })
  const config = {
    ca: { plugin: './acme.mjs' },
    identities: [WEB],
    sockets: [{ path: 'run/sds.sock', allow: [WEB] }],
    admin: { address: '127.0.0.1:0' },
    log: { level: 'debug' },
    drain: '0s',
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await agent.line(/ca-error.*thrown/)
  await agent.line(/logged/)
  const explained = await (await fetch(`http://${admin}/explain?name=${WEB}`)).text()
  const shown = await livery(['explain', WEB, '--admin', admin], { cwd })
  const json = await livery(['explain', WEB, '--admin', admin, '--json'], { cwd })
  agent.kill('SIGTERM')
  await agent.ended
  for (const text of [agent.stderr, explained, shown.stdout, json.stdout]) {
    assert.match(text, /thrown/)
    assert.doesNotMatch(text, SECRET)
    assert.doesNotMatch(text, UNPRINTABLE)
    assert.doesNotMatch(text, /^INFO forged/m)
    assert.match(text, /bearer \[token\] password=\[secret\] \[private key\] end/)
  }
})

test('a message of the plugin about its configuration is one clean line', async t => {
  const cwd = temporaryFolder(t)
  await writePluginModule(cwd, { onCreate: `throw new TypeError("thrown ${EVIL}")` })
  const config = { ca: { plugin: './acme.mjs' }, identities: [WEB], sockets: [{ path: 'run/sds.sock' }] }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const { code, stderr } = await livery(['run'], { cwd })
  assert.equal(code, 78)
  assert.match(stderr, /ca: thrown \[2Jgone INFO forged: line x/)
  assert.doesNotMatch(stderr, SECRET)
  assert.doesNotMatch(stderr, UNPRINTABLE)
})

test('another program that answers in the place of the agent cannot write to the terminal', async t => {
  const cwd = temporaryFolder(t)
  const evil = JSON.parse(`"${EVIL}"`)
  const identity = { identity: evil, state: evil, certChain: [], rootCerts: [] }
  const event = { kind: 'ca-error', code: evil, message: evil }
  const bodies: Readonly<Record<string, unknown>> = {
    '/config_dump': { certificates: [identity] },
    '/explain': { name: evil, now: 0, state: evil, entries: [{ time: 0, text: evil, event }] },
  }
  let status = 200
  const server = createServer(({ url = '' }, response) => {
    const [path = ''] = url.split('?')
    response.writeHead(status).end(status === 200 ? JSON.stringify(bodies[path]) : evil)
  })
  await listening(server)
  t.after(() => server.close())
  const admin = `127.0.0.1:${portOf(server)}`
  for (status of [200, 500])
    for (const command of [['certs'], ['explain', WEB]])
      for (const json of [[], ['--json']]) {
        const { stdout, stderr } = await livery([...command, ...json, '--admin', admin], { cwd })
        assert.match(stdout + stderr, /gone/)
        assert.doesNotMatch(stdout + stderr, UNPRINTABLE)
        assert.doesNotMatch(stdout + stderr, /^INFO forged/m)
      }
})

/** `livery run` with tracing: a receiver of OTLP gets one trace for a certificate, and the CA sees the same one. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { FaultyCaServer } from '@livery/ca-plugins/testing'
import { LiveryProcess, livery, makeDirectory } from './livery-process.ts'
import { OtlpReceiver } from './otlp-receiver.ts'
import { openStream } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const BAD = 'spiffe://cluster.local/ns/default/sa/bad'
const TOKEN = 'a-token-that-no-span-has'

async function start(cwd: string, ca: FaultyCaServer, more: object, env: Record<string, string> = {}) {
  await writeFile(join(cwd, 'root.pem'), ca.authority.trustBundle().join(''))
  await writeFile(join(cwd, 'token'), TOKEN)
  const config = {
    ca: { plugin: 'citadel', address: ca.address, rootCert: 'root.pem', tokenFile: 'token' },
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'], onDemand: true }],
    admin: { address: '127.0.0.1:0' },
    drain: '100ms',
    log: { level: 'info,sds:debug,ca:debug' },
    ...more,
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  return new LiveryProcess(['run'], { cwd, env })
}

/** Its last spans are sent then. */
async function stop(agent: LiveryProcess): Promise<void> {
  agent.kill('SIGTERM')
  assert.deepEqual(await agent.ended, { code: 0, signal: null })
}

test('a certificate is one trace, from the question to the ACK, in which the call to the CA has its place', async () => {
  await using directory = await makeDirectory()
  await using receiver = await OtlpReceiver.start()
  await using ca = await FaultyCaServer.start()
  const socket = join(directory.path, 'sds.sock')
  await using agent = await start(directory.path, ca, { tracing: { otlp: receiver.url } })
  await agent.admin()
  using stream = await openStream(socket, [WEB], { accepts: true })
  await agent.line(/"event":"acked"/)
  await stop(agent)

  const spans = receiver.trace('livery.identity', WEB)
  assert.deepEqual(
    spans.map(({ name }) => name).filter(name => name !== 'queue'),
    ['certificate', 'issue', 'key', 'check', 'push'],
  )
  const named = (name: string) => spans.find(span => span.name === name) ?? assert.fail(name)
  const [root, issue, key, check, push] = [
    named('certificate'),
    named('issue'),
    named('key'),
    named('check'),
    named('push'),
  ]
  for (const span of [issue, check, push]) assert.equal(span.parentSpanId, root.spanId, span.name)
  assert.equal(key.parentSpanId, issue.spanId)
  assert.ok(key.end <= issue.end && issue.end <= check.start && check.end <= push.start && push.start < push.end)
  for (const span of spans) assert.equal(span.status.code, 0, span.name)
  assert.deepEqual([issue.kind, root.events], [3, ['asked']])

  assert.equal(ca.calls[0]?.headers['traceparent'], `00-${root.traceId}-${issue.spanId}-01`)
  assert.equal(issue.attributes['livery.ca'], `citadel at ${ca.address}`)
  const [issued = ''] = agent.stderr.split('\n').filter(line => line.includes('"event":"issued"'))
  const { serialNumber }: { readonly serialNumber: string } = JSON.parse(issued)
  assert.equal(root.attributes['livery.serial_number'], serialNumber)
  assert.equal(push.attributes['livery.serial_number'], serialNumber)
  assert.equal(push.attributes['livery.socket'], socket)
  assert.equal(receiver.resource['service.name'], 'livery')
  for (const secret of ['PRIVATE KEY', TOKEN]) assert.ok(!Buffer.concat(receiver.bodies).includes(secret), secret)
  assert.equal(stream.secrets[0]?.name, WEB)
})

test('a request that the CA refuses is a trace with an error and its code; variables of OpenTelemetry set it up', async () => {
  await using directory = await makeDirectory()
  await using receiver = await OtlpReceiver.start()
  await using ca = await FaultyCaServer.start()
  ca.behaviour = { kind: 'refuse', code: status.PERMISSION_DENIED, details: `not with ${TOKEN}` }
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.replace('/v1/traces', ''),
    OTEL_SERVICE_NAME: 'node-agent',
    OTEL_RESOURCE_ATTRIBUTES: 'k8s.node.name=node-7',
  }
  await using agent = await start(directory.path, ca, { identities: [BAD] }, env)
  await agent.admin()
  await agent.line(/"event":"ca-error"/)
  await stop(agent)
  const [root, issue, ...rest] = receiver.trace('livery.identity', BAD).filter(({ name }) => name !== 'queue')
  assert.deepEqual([root?.name, root?.status.code, root?.attributes['error.type']], ['certificate', 2, 'denied'])
  assert.match(root?.status.message ?? '', /^Cannot get a certificate for spiffe/)
  assert.deepEqual([issue?.name, issue?.status.code, issue?.attributes['error.type']], ['issue', 2, 'denied'])
  assert.deepEqual(
    rest.map(({ name, status: { code } }) => [name, code]),
    [['key', 0]],
  )
  assert.deepEqual([receiver.resource['service.name'], receiver.resource['k8s.node.name']], ['node-agent', 'node-7'])
  assert.ok(!Buffer.concat(receiver.bodies).includes(TOKEN))
})

test('an answer of the CA that fails its check is an error of the check, not of the call', async () => {
  await using directory = await makeDirectory()
  await using receiver = await OtlpReceiver.start()
  await using ca = await FaultyCaServer.start()
  ca.behaviour = { kind: 'wrong-key' }
  await using agent = await start(directory.path, ca, { identities: [BAD], tracing: { otlp: receiver.url } })
  await agent.admin()
  await agent.line(/"event":"ca-error"/)
  await stop(agent)
  const spans = receiver.trace('livery.identity', BAD).filter(({ name }) => name !== 'queue')
  assert.deepEqual(
    spans.map(({ name, status: { code }, attributes }) => [name, code, attributes['error.type']]),
    [
      ['certificate', 2, 'bad-response'],
      ['issue', 0, undefined],
      ['key', 0, undefined],
      ['check', 2, 'bad-response'],
    ],
  )
})

test('of a ratio of 0 nothing is sent, and the CA sees that the trace is not sampled', async () => {
  await using directory = await makeDirectory()
  await using receiver = await OtlpReceiver.start()
  await using ca = await FaultyCaServer.start()
  const more = { identities: [WEB], tracing: { otlp: receiver.url } }
  await using agent = await start(directory.path, ca, more, { OTEL_TRACES_SAMPLER: 'parentbased_always_off' })
  await agent.admin()
  await agent.line(/"event":"issued"/)
  await stop(agent)
  assert.deepEqual(receiver.bodies, [])
  assert.match(ca.calls[0]?.headers['traceparent'] ?? '', /^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
})

test('without tracing the CA gets no trace, and no package of OpenTelemetry is needed', async () => {
  await using directory = await makeDirectory()
  await using ca = await FaultyCaServer.start()
  await using agent = await start(directory.path, ca, { identities: [WEB] }, await withoutPackages(directory.path))
  await agent.admin()
  await agent.line(/"event":"issued"/)
  await stop(agent)
  assert.equal(ca.calls[0]?.headers['traceparent'], undefined)
})

test('where the packages are missing, run and check-config end with the key, the packages and the remedy', async () => {
  await using directory = await makeDirectory()
  const cwd = directory.path
  await using ca = await FaultyCaServer.start()
  const more = { identities: [WEB], tracing: { otlp: 'http://127.0.0.1:4318/v1/traces' } }
  const env = await withoutPackages(cwd)
  await using agent = await start(cwd, ca, more, env)
  const { code } = await agent.ended
  const ended = { code, stderr: agent.stderr, stdout: agent.stdout }
  for (const { code, stderr, stdout } of [ended, await livery(['check-config'], { cwd, env })]) {
    assert.equal(code, 78)
    assert.equal(stdout, '')
    assert.match(
      stderr,
      /tracing\.otlp: needs packages of OpenTelemetry, which cannot be loaded \(Cannot find package '@opentelemetry\//,
    )
    assert.match(
      stderr,
      /npm install @opentelemetry\/api @opentelemetry\/resources @opentelemetry\/sdk-trace @opentelemetry\/exporter-trace-otlp-proto/,
    )
  }
  const installed = await livery(['check-config'], { cwd })
  assert.equal(installed.code, 0, installed.stderr)
})

test('a receiver that is away costs no certificate: one warning, and the agent ends in time', async () => {
  await using directory = await makeDirectory()
  const receiver = await OtlpReceiver.start()
  const { url } = receiver
  await receiver[Symbol.asyncDispose]()
  await using ca = await FaultyCaServer.start()
  await using agent = await start(directory.path, ca, { identities: [WEB], tracing: { otlp: url } })
  await agent.admin()
  await agent.line(/"event":"issued"/)
  await stop(agent)
  assert.match(agent.stderr, /"level":"warn".*spans are lost/)
})

/** The tracing of the agent looks for its packages where there are none, as where nobody installed them. */
async function withoutPackages(folder: string): Promise<Record<string, string>> {
  const hook = join(folder, 'without-packages.mjs')
  await writeFile(
    hook,
    `import { registerHooks } from 'node:module'
registerHooks({
  resolve(specifier, context, next) {
    const isOurs = specifier.startsWith('@opentelemetry/') && context.parentURL?.includes('/tracing/')
    return next(specifier, isOurs ? { ...context, parentURL: 'file:///nowhere/x.js' } : context)
  },
})
`,
  )
  return { NODE_OPTIONS: `--import ${hook}` }
}

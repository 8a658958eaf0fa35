/** The pages of docs/run/runbook: each but one belongs to an alert, and its commands find the fault on a node that has it. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { CA_ERROR_CODES } from '@livery/core/plugin'
import type { RefusedConnection } from '@livery/sds-server'
import { parse } from 'yaml'
import { noTroubledNode, TroubledNode } from './troubled-node.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const pages = readdirSync(`${root}docs/run/runbook`).filter(file => file !== 'README.md')
/** No agent sees what it is about; its commands run in a test with Envoys, `runbook-calls.test.ts`. */
const WITHOUT_ALERT = 'calls-refused.md'
const alerted = pages.filter(page => page !== WITHOUT_ALERT)
const read = (file: string): string => readFileSync(`${root}docs/run/runbook/${file}`, 'utf8')

interface Alert {
  readonly alert?: string
  readonly labels: { readonly severity: string }
  readonly annotations: { readonly runbook_url: string }
}

const { groups }: { readonly groups: readonly { readonly rules: readonly Alert[] }[] } = parse(
  readFileSync(`${root}deploy/prometheus/livery.rules.yaml`, 'utf8'),
)
const alerts = groups.flatMap(({ rules }) => rules).filter(({ alert }) => alert !== undefined)

test('each alert leads to a page, which names it, and the index has its severity and page', () => {
  assert.ok(alerts.length >= 12)
  const index = read('README.md')
  const linked = alerts.map(({ alert, labels, annotations }) => {
    const [, page = ''] = /\/blob\/main\/docs\/run\/runbook\/([a-z-]+\.md)$/.exec(annotations.runbook_url) ?? []
    assert.ok(read(page).includes(`\`${alert}\``), `${page} does not name ${alert}`)
    assert.match(index, new RegExp(`^\\| \`${alert}\` \\| ${labels.severity} \\| \\[[^\\]]+\\]\\(${page}\\) \\|$`, 'm'))
    return page
  })
  assert.deepEqual([...new Set(linked)].sort(), alerted.toSorted())
  assert.ok(index.includes(`](${WITHOUT_ALERT})`))
  assert.equal(index.match(/^\| `Livery/gm)?.length, alerts.length)
})

test('the page of failing identities has every code of an error, that of refused callers every reason', () => {
  for (const code of CA_ERROR_CODES) assert.ok(read('identities-failing.md').includes(`\`${code}\``), code)
  const reasons: Readonly<Record<RefusedConnection | 'socket' | 'caller' | 'process' | 'rate', true>> = {
    'not-allowed': true,
    'too-many-connections': true,
    'too-many-of-caller': true,
    'too-many-in-process': true,
    'caller-held': true,
    'unreadable-credentials': true,
    unidentified: true,
    'unknown-caller': true,
    socket: true,
    caller: true,
    process: true,
    rate: true,
  }
  for (const reason of Object.keys(reasons)) assert.ok(read('connections-refused.md').includes(`\`${reason}\``), reason)
})

let node: TroubledNode
before(async () => {
  if (!noTroubledNode) node = await TroubledNode.start()
})
after(() => node?.[Symbol.asyncDispose]())

/** The output of all commands of a page, word for word but for the admin socket and the root, which are those of this node. */
async function follow(page: string): Promise<string> {
  const blocks = [...read(page).matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block)
  assert.ok(blocks.length > 0)
  const status = await node.run('livery trust status --json')
  const [domain]: readonly { readonly roots: readonly { readonly fingerprint: string }[] }[] =
    JSON.parse(status).trustDomains
  const newest = domain?.roots.at(-1)?.fingerprint ?? ''
  const commands = blocks
    .join('')
    .replaceAll('/run/livery/admin.sock', 'run/admin.sock')
    .replaceAll('0123456789abcdef', newest.slice(0, 16))
  return await node.run(commands)
}

const DB = /sa\/db +[A-Z]\w+/
const REFUSED = /the CA did not issue \(unauthenticated\)/
const RENEWED = /Asking the CA for .*sa\/db now/

/** What an operator has to see. In this order: the later pages are about more faults. */
const SHOWN: Readonly<Record<string, readonly RegExp[]>> = {
  'certificate-not-renewed.md': [
    DB,
    REFUSED,
    /^livery_certificates_least_remaining_ratio 0\.\d+$/m,
    /^livery_ca_paused\{reason="rate-limited"\} 0$/m,
    RENEWED,
  ],
  'certificate-expired.md': [/^not ready\n[\s\S]*sa\/db: the CA fails \(unauthenticated\)/m, DB, REFUSED, RENEWED],
  // Before doctor is the next caller that the socket refuses.
  'connections-refused.md': [
    /^livery_sds_refused_connections_total\{socket="[^"]*closed\.sock",reason="not-allowed"\} 1$/m,
    /"event":"connection-refused".*"reason":"not-allowed"/,
    /closed\.sock/,
  ],
  'identities-failing.md': [
    /^WRONG/m,
    DB,
    REFUSED,
    /"event":"ca-error","resource":"[^"]*\/db","code":"unauthenticated"/,
    /^livery_ca_errors_total\{code="unauthenticated"\} [1-9]/m,
    RENEWED,
  ],
  'secrets-rejected.md': [
    /"event":"nacked".*the key cannot be loaded/,
    /rejected \(NACK\) by node \\?"test-node\\?".*the key cannot be loaded/,
    /sa\/web[\s\S]*rejected/,
  ],
  'socket-not-served.md': [
    /^not ready\nwaiting for:\n {2}The socket .*api\.sock is not served \(waiting\)/m,
    /"event":"socket-waiting"/,
    /^livery_sds_sockets\{state="waiting"\} 1$/m,
  ],
  'clock-skew.md': [/^.*clock/m, /UTC/, /^livery_ca_clock_ahead_seconds\{ca="[^"]+"\} -?\d/m, /cluster\.local/],
  'memory.md': [
    /^process_resident_memory_bytes \d/m,
    /^livery_memory_limit_bytes \d/m,
    /^nodejs_heap_limit_bytes \d/m,
    /^livery_identities\{state="available"\} 2$/m,
    /maxIdentities: 20000/,
  ],
  'event-loop.md': [
    /^livery_event_loop_delay_seconds\{stat="p99"\} \d/m,
    /^process_cpu_seconds_total \d/m,
    /^livery_sds_pushes_total \d/m,
  ],
  'root-rotation-held.md': [
    /rejected by node .*the new root cannot be loaded/,
    /trust bundle changed: 2 roots/,
    /The root [0-9a-f]{64} is (?:announcing|trusted) now/,
  ],
  'store-failing.md': [/^WRONG/m, /"event":"not-stored"/, /^livery_store_failures_total [1-9]/m, /Filesystem/],
  'ca-down.md': [
    /the CA does not answer: until it does/,
    DB,
    /plugin: citadel/,
    /"event":"ca-error".*"code":"(?:unavailable|timeout)"/,
  ],
  'certificate-revoked.md': [
    /crl\.pem revokes the leaf with serial [0-9a-f]+ \(list of .*CN=/,
    /revoked, peers refuse it/,
    /"event":"revoked","resource":"[^"]*\/web"/,
    /^livery_identities_failing\{code="revoked"\} 1$/m,
  ],
}

const FAULTS: Readonly<Record<string, () => Promise<void>>> = {
  'store-failing.md': () => node.breakStore(),
  'ca-down.md': () => node.stopCA(),
  'certificate-revoked.md': () => node.revokeWeb(),
}

test('every page has its place in the test', () => assert.deepEqual(Object.keys(SHOWN).sort(), alerted.toSorted()))

for (const [page, shown] of Object.entries(SHOWN))
  test(`${page}: the commands show the fault`, { skip: noTroubledNode }, async () => {
    await FAULTS[page]?.()
    const output = await follow(page)
    for (const pattern of shown) assert.match(output, pattern)
    assert.doesNotMatch(output, /PRIVATE KEY|some-secret/)
  })

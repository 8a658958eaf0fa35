import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { listening, portOf } from '@livery/test-support'
import { runCommandLine } from '../cli.ts'
import { certificateTable } from './certificate-table.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const LEAF = {
  pem: '',
  serialNumber: '03a08591aabbccddeeff00112233445566778899',
  validFrom: '',
  expirationTime: '1970-01-02T00:00:00.000Z',
}
const TEXT =
  'Cannot ask the CA at istiod.istio-system.svc:15012: 14 UNAVAILABLE: No connection established. Last error: connect ECONNREFUSED 10.96.12.40:15012. Start it, or correct ca.address.'
const REASON = `unavailable: ${TEXT}`

test('the reason why an identity has no certificate is below its row, and all fits 80 columns', () => {
  const table = certificateTable(
    [
      { identity: WEB, state: 'Available', certChain: [LEAF], rootCerts: [], renewAt: '1970-01-01T12:00:00.000Z' },
      { identity: `${WEB}-2`, state: 'Failing', reason: REASON, certChain: [], rootCerts: [] },
    ],
    0,
    80,
  )
  assert.deepEqual(table.split('\n').slice(0, 3), [
    'STATE      EXPIRES    ROTATION   IDENTITY',
    `Available  in 24h00m  in 12h00m  ${WEB}`,
    `Failing    -          -          ${WEB}-2`,
  ])
  assert.equal(
    table
      .split('\n')
      .slice(3)
      .map(line => line.trim())
      .join(' ')
      .trim(),
    REASON,
  )
  for (const line of table.split('\n')) assert.ok(line.length <= 80, `${line.length}: ${line}`)
})

test('the reason why clients would refuse a certificate is below its row', () => {
  const reason = 'preflight-failed: clients would refuse it: certificate signature failure'
  const identity = { identity: WEB, state: 'Available', certChain: [LEAF], rootCerts: [], reason } as const
  assert.match(certificateTable([identity], 0, 80), new RegExp(`${WEB}\n  ${reason}\n$`))
})

test('where there is room, and in a pipe, the table has serial numbers and dates', () => {
  const identity = {
    identity: WEB,
    state: 'Available',
    certChain: [LEAF],
    rootCerts: [],
    lastsUntil: LEAF.expirationTime,
  } as const
  for (const columns of [200, undefined])
    assert.match(
      certificateTable([identity], 0, columns),
      / {2}03a0859\S+ {2}1970-01-02T00:00:00Z \(in 24h00m\) {2}24h00m {2}-\n$/,
    )
})

/** Runs a command against a server that answers every request with this. */
async function ask(
  args: readonly string[],
  answer: { readonly type: string; readonly status: number; readonly body: string },
) {
  const server = createServer((_, response) =>
    response.writeHead(answer.status, { 'content-type': answer.type }).end(answer.body),
  )
  await listening(server)
  const port = portOf(server)
  const printed = { out: '', err: '' }
  const terminal = {
    environment: {},
    workingDirectory: '/',
    terminal: false,
    out: (text: string) => {
      printed.out += text
    },
    err: (text: string) => {
      printed.err += text
    },
  }
  try {
    const code = await runCommandLine([...args, '--admin', `127.0.0.1:${port}`], terminal)
    return { ...printed, code }
  } finally {
    server.close()
  }
}

test('state, reason and serial numbers are apart and whole in JSON, in whole bytes as livery explain prints them', async () => {
  const dumped = (serialNumber: bigint) => ({ ...LEAF, serialNumber: String(serialNumber) })
  const lastFailure = { code: 'unavailable', text: TEXT, since: LEAF.expirationTime, remainingSeconds: 7 }
  const certificates = [
    {
      identity: WEB,
      state: 'Failing',
      certChain: [dumped(0x3a08591n)],
      rootCerts: [dumped(0x3a0859n)],
      lastFailure,
      problem: REASON,
    },
  ]
  const body = JSON.stringify({ certificates })
  const { out, code } = await ask(['certs', '--json'], { type: 'application/json', status: 200, body })
  assert.equal(code, 0)
  const [listed] = JSON.parse(out)
  assert.deepEqual([listed.state, listed.reason, listed.lastFailure], ['Failing', REASON, lastFailure])
  assert.deepEqual([listed.certChain[0].serialNumber, listed.rootCerts[0].serialNumber], ['03a08591', '3a0859'])
})

test('names of files are listed below the identities, with the rest of their life and why their files are not used', async () => {
  const files = [
    { name: 'file-cert:/c~/k', state: 'Available: its key is not there', expirationTime: '1970-01-02T00:00:00.000Z' },
    { name: 'file-root:/ca', state: 'Available', changedAt: '1970-01-01T00:00:00.000Z' },
  ]
  const certificates = [{ identity: WEB, state: 'Available', certChain: [], rootCerts: [] }]
  const answer = { type: 'application/json', status: 200, body: JSON.stringify({ certificates, files }) }
  const { out } = await ask(['certs', '--json'], answer)
  const listed: unknown[] = JSON.parse(out)
  assert.deepEqual(listed.slice(1), [{ ...files[0], state: 'Available', reason: 'its key is not there' }, files[1]])
  const [pair = { name: '', state: '' }, roots = pair] = files
  const table = certificateTable([{ ...pair, state: 'Available', reason: 'its key is not there' }, roots], 0, 60)
  assert.deepEqual(table.trimEnd().split('\n'), [
    'STATE      EXPIRES    ROTATION  IDENTITY',
    'Available  in 24h00m  -         file-cert:/c~/k',
    '  its key is not there',
    'Available  -          -         file-root:/ca',
  ])
})

for (const command of [['certs'], ['explain', WEB]])
  test(`${command[0]} says in one line that another program answers at the admin address`, async () => {
    const body = '<!DOCTYPE html>\n<html>\n<head>\n<title>Not Found</title>\n</head>\n</html>\n'
    const { err, code } = await ask(command, { type: 'text/html; charset=utf-8', status: 404, body })
    assert.equal(code, 1)
    assert.match(
      err,
      /^livery: .*another program answers there \(HTTP 404, text\/html; charset=utf-8\)\. Stop it, or use another address\.\n$/,
    )
  })

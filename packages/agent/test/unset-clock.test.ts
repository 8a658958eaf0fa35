/** An agent on a machine whose clock was never set, and then is. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess, livery } from './livery-process.ts'
import { fetchSecrets } from './sds-client.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
/** Loaded before the program: its wall clock begins in 1970, and is set on SIGUSR2. */
const UNSET = `
const { now } = Date
let late = now()
Date.now = () => now() - late
process.on('SIGUSR2', () => { late = 0 })
`
const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(UNSET)}` }

test('in 1970 the agent warns and serves nothing, and serves once the clock is set', { timeout: 60_000 }, async t => {
  const cwd = temporaryFolder(t)
  const grant = { token: 'node', identity: WEB }
  await writeFile(join(cwd, 'tokens.yaml'), JSON.stringify([grant]))
  await writeFile(join(cwd, 'token'), 'node')
  await using ca = new LiveryProcess(['ca', '--listen', '127.0.0.1:0', '--tokens', 'tokens.yaml', '--dir', 'ca'], {
    cwd,
  })
  const { address }: { readonly address: string } = JSON.parse(await ca.line(/"msg":"CA of cluster\.local on /))
  const config = {
    ca: { plugin: 'citadel', address, rootCert: 'ca/root.pem', tokenFile: 'token' },
    identities: [{ id: WEB, socket: 'web.sock' }],
    admin: { address: '127.0.0.1:0' },
    retry: { min: '100ms', max: '1s' },
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  await using agent = new LiveryProcess(['run'], { cwd, env })
  await agent.line(/the clock says 1970-01-01T.*no certificate is valid until it is set/)
  await agent.line(/"event":"ca-error"/)
  assert.doesNotMatch(agent.stderr, /"event":"issued"/)
  agent.kill('SIGUSR2')
  await agent.line(/"event":"issued"/)
  const [secret] = await fetchSecrets(join(cwd, 'web.sock'), ['default'])
  assert.match(secret?.certificateChain ?? '', /BEGIN CERTIFICATE/)
})

test('in 1970 the embedded CA makes no root that would be over when the clock is set', {
  timeout: 60_000,
}, async t => {
  const cwd = temporaryFolder(t)
  const config = { ca: { plugin: 'embedded', directory: 'ca' }, identities: [{ id: WEB, socket: 'web.sock' }] }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const { code, stderr } = await livery(['run'], { cwd, env })
  assert.equal(code, 1, stderr)
  assert.match(stderr, /Cannot make a root: the clock says 1970-/)
  await assert.rejects(readFile(join(cwd, 'ca', 'authority.json')), { code: 'ENOENT' })
})

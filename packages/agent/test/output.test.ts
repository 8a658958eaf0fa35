/** The whole agent with an output directory: certificates of the embedded CA, rotated though nobody streams, through a reload. */
import assert from 'node:assert/strict'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { LiveryProcess } from './livery-process.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

test('identities are written to their directories, rotated, and added by a reload', async t => {
  const directory = temporaryFolder(t)
  const cwd = realpathSync(directory)
  const write = (output: object, ...identities: readonly unknown[]) => {
    const ca = { plugin: 'embedded' }
    const whole = {
      ca,
      identities,
      output,
      ttl: '4s',
      sockets: [{ path: 'sds.sock' }],
      admin: { address: '127.0.0.1:0' },
    }
    writeFileSync(join(cwd, 'livery.yaml'), JSON.stringify(whole))
  }
  write({ directory: 'out/{name}', bundle: true }, WEB)
  await using agent = new LiveryProcess(['run'], { cwd })
  const admin = await agent.admin()
  await agent.lines(new RegExp(`"resource":"${WEB}".*"msg":"written to ${cwd}/out/web"`), 2)
  const leaf = new X509Certificate(readFileSync(join(cwd, 'out/web/cert-chain.pem')))
  assert.ok(leaf.checkPrivateKey(createPrivateKey(readFileSync(join(cwd, 'out/web/key.pem')))))
  assert.ok(leaf.verify(new X509Certificate(readFileSync(join(cwd, 'out/web/root-cert.pem'))).publicKey))
  assert.equal(statSync(join(cwd, 'out/web/bundle.pem')).mode & 0o777, 0o600)
  write({ directory: 'out/{name}', bundle: true }, WEB, { id: API, output: { directory: 'api', mode: '0640' } })
  await agent.line(new RegExp(`"resource":"${API}".*"msg":"written to ${cwd}/api"`))
  assert.equal(statSync(join(cwd, 'api/key.pem')).mode & 0o777, 0o640)
  const metrics = await (await fetch(`http://${admin}/metrics`)).text()
  assert.match(metrics, /^livery_output_failures_total 0$/m)
})

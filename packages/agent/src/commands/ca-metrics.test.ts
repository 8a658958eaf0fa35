import assert from 'node:assert/strict'
import { test } from 'node:test'
import { staticTokens } from '@livery/ca-plugins/istio-ca-server'
import { ask, setUpCaServer } from '../../../ca-plugins/test/istio-ca-server-setup.ts'
import { CAMetrics } from './ca-metrics.ts'

test("a scrape of livery ca has istiod's counters, from 0 on, and the end of the root", async t => {
  let metrics: CAMetrics | undefined
  const identity = 'spiffe://cluster.local/ns/default/sa/web'
  const authenticators = [staticTokens([{ token: 'good', identity, impersonates: [] }])]
  const setup = await setUpCaServer(t, { authenticators, observe: event => metrics?.count(event) })
  metrics = new CAMetrics(setup.authority)
  await using listener = await metrics.listen({ host: '127.0.0.1', port: 0 })
  const scrape = async () => {
    const text = await (await fetch(`http://${listener.address}/metrics`)).text()
    const samples = [...text.matchAll(/^citadel_server_(\w+) (\d+)$/gm)].map(([, name = '', value]) => [name, value])
    return { text, counts: Object.fromEntries(samples) }
  }
  const root = setup.authority.roots()[0]?.notAfter ?? 0
  const none = {
    csr_count: '0',
    authentication_failure_count: '0',
    csr_parsing_err_count: '0',
    csr_sign_err_count: '0',
    success_cert_issuance_count: '0',
    root_cert_expiry_timestamp: `${Math.floor(root / 1000)}`,
  }
  assert.deepEqual((await scrape()).counts, none)

  await ask(setup, { token: 'good' })
  await assert.rejects(ask(setup, { token: 'bad' }))
  await assert.rejects(ask(setup, { token: 'good', csr: 'nonsense' }))
  const { text, counts } = await scrape()
  const asked = { csr_count: '3', success_cert_issuance_count: '1' }
  assert.deepEqual(counts, { ...none, ...asked, authentication_failure_count: '1', csr_parsing_err_count: '1' })
  assert.match(text, /^# TYPE citadel_server_csr_count counter$/m)
  assert.equal((await fetch(`http://${listener.address}/`)).status, 404)
  await assert.rejects(
    metrics.listen(addressOf(listener.address)),
    /Cannot serve metrics on 127\.0\.0\.1:\d+: .*EADDRINUSE/,
  )
})

function addressOf(address: string): { readonly host: string; readonly port: number } {
  const { hostname: host, port } = new URL(`http://${address}`)
  return { host, port: Number(port) }
}

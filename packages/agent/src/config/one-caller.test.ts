import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { loadConfig } from './load.ts'

const directory = temporaryFolder({ after })

const ISTIOD = 'plugin: citadel, address: "istiod.example:15012", rootCert: root.pem, tokenFile: token'
const NODE = 'kubernetes: { nodeName: node-1 }\nsockets: [{ path: /sds }]'
const WEB = '{ id: spiffe://cluster.local/web, socket: web.sock'
const API = '{ id: spiffe://cluster.local/api, socket: api.sock'
const TWO = `identities: [${WEB} }, ${API} }]`
const STS = 'credentials: { source: sts, audience: pool'

async function warningsOf(text: string): Promise<readonly string[]> {
  const file = join(directory, 'livery.yaml')
  writeFileSync(file, text)
  const { warnings } = await loadConfig({ file, environment: {}, workingDirectory: directory, terminal: false })
  return warnings
}

for (const [what, text] of [
  ['the token of the node for all pods', `ca: { ${ISTIOD} }\n${NODE}`],
  ['the token of the node, exchanged, for all pods', `ca: { ${ISTIOD}, ${STS} } }\n${NODE}`],
  [
    'the token of the node for all pods, for one CA of a list',
    `ca: { plugin: failover, cas: [{ ${ISTIOD} }, { plugin: embedded }] }\n${NODE}`,
  ],
  ['one token for two identities', `ca: { ${ISTIOD} }\n${TWO}`],
  ['one token for identities on demand', `ca: { ${ISTIOD} }\nsockets: [{ path: /sds, onDemand: true }]`],
] as const)
  test(`a CA that names certificates by the caller gets ${what}: a warning`, async () => {
    const [warning = '', ...others] = await warningsOf(text)
    const key = text.includes('failover') ? 'ca\\.cas\\[0\\]' : 'ca'
    const other = text.includes('kubernetes') ? `Write ${key}\\.credentials: .*` : 'Give each identity its tokenFile'
    assert.match(warning, new RegExp(`^${key}: citadel .* ${other}, or set ${key}\\.impersonate: true\\.$`))
    assert.deepEqual(others, [])
  })

for (const [what, text] of [
  ['it impersonates', `ca: { ${ISTIOD}, impersonate: true }\n${NODE}`],
  ['each pod has its token', `ca: { ${ISTIOD}, credentials: { source: workload-token, audience: istio-ca } }\n${NODE}`],
  ['the token of each pod is exchanged', `ca: { ${ISTIOD}, ${STS}, workloadToken: { audience: pool } } }\n${NODE}`],
  [
    'the CA takes the name from the CSR',
    `ca: { plugin: kubernetes-csr, signerName: a.b/c, signerRoots: r.pem }\n${NODE}`,
  ],
  ['the CA is embedded', `ca: { plugin: embedded }\n${NODE}`],
  ['there is one identity', `ca: { ${ISTIOD} }\nidentities: [${WEB} }]`],
  ['each identity but one has its token', `ca: { ${ISTIOD} }\nidentities: [${WEB} }, ${API}, tokenFile: api }]`],
  ['two identities are impersonated', `ca: { ${ISTIOD}, impersonate: true }\n${TWO}`],
  ['the profile istio impersonates', `profile: istio\n${NODE}`],
] as const)
  test(`no warning where ${what}`, async () => assert.deepEqual(await warningsOf(text), []))

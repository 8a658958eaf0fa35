import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { loadConfig } from './load.ts'
import { configuredSettle } from './settle.ts'

const directory = temporaryFolder({ after })

const PUSHED = '{ plugin: embedded }'
const POLLED = '{ plugin: vault, address: "https://vault.example", role: web, tokenFile: token }'
const UNLISTED = '{ plugin: citadel, address: "istiod.example:15012", rootCert: root.pem, tokenFile: token }'

async function load(ca: string, more = '') {
  const file = join(directory, 'livery.yaml')
  const rest = 'identities: [spiffe://cluster.local/ns/default/sa/web]\nsockets: [{ path: run/sds.sock }]\n'
  writeFileSync(file, `ca: ${ca}\n${rest}${more}\n`)
  const { config, warnings } = await loadConfig({ file, environment: {}, workingDirectory: '/', terminal: false })
  return { settle: configuredSettle(config, config.ca), warnings: warnings.join('\n') }
}

test('the defaults go together, whatever the CA', async () => {
  for (const ca of [PUSHED, POLLED, UNLISTED]) assert.equal((await load(ca)).warnings, '', ca)
})

test('a settle time that is shorter than the news of a root travel is a warning', async () => {
  const short = 'rotation: { settle: 10s }'
  assert.equal((await load(PUSHED, short)).warnings, '')
  assert.match(
    (await load(POLLED, short)).warnings,
    /^rotation\.settle 10s: nodes hear of a new root up to 5m after .*every trust\.poll, 5m.* Write 610s or more/,
  )
  assert.match(
    (await load(UNLISTED, short)).warnings,
    /^rotation\.settle 10s: nodes hear of a new root up to 864m after .*when they renew a certificate/,
  )
  assert.equal((await load(POLLED, 'rotation: { settle: 40s }\ntrust: { poll: 30s }')).warnings, '')
})

test('a poll that is too slow for the lifetime is a warning', async () => {
  assert.match(
    (await load(POLLED, 'ttl: 20m')).warnings,
    /^trust\.poll 5m with ttl 20m: a certificate can wait 6m for its root .* less than the 610s .*Write a trust\.poll of 2m or less/,
  )
  assert.equal((await load(POLLED, 'ttl: 20m\ntrust: { poll: 2m }')).warnings, '')
})

test('a list of CAs settles as its slowest CA does', async () => {
  const list = (...cas: readonly string[]) => `{ plugin: failover, cas: [${cas.join(', ')}] }`
  assert.equal((await load(list(PUSHED, PUSHED.replace('}', ', directory: b }')))).settle, 10_000)
  assert.equal((await load(list(PUSHED, POLLED))).settle, 610_000)
  assert.equal((await load(list(PUSHED, POLLED), 'rotation: { settle: 6m }')).settle, 360_000)
})

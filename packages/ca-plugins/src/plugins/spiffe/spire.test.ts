/** The plugin at a real SPIRE, where LIVERY_SPIRE names its programs. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { nodeCertificateVerifier } from '@livery/core'
import {
  type CAChange,
  type CAClient,
  CAError,
  type IssuedCertificate,
  type SpiffeId,
  SystemClock,
} from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { noSpire, Spire } from '../../../test/spire-process.ts'
import { pluginContext } from '../../testing/plugin-context.ts'
import { spiffe } from './index.ts'

const WEB: SpiffeId = 'spiffe://cluster.local/ns/default/sa/web'
const API: SpiffeId = 'spiffe://cluster.local/ns/default/sa/api'

async function open(t: TestContext, spire: Spire): Promise<CAClient> {
  const clock = new SystemClock()
  t.after(() => clock[Symbol.dispose]())
  const client = await spiffe.create(pluginContext({ clock }), { address: spire.address })
  t.after(() => client[Symbol.asyncDispose]())
  return client
}

async function start(t: TestContext): Promise<Spire> {
  const spire = await Spire.start(temporaryFolder(t))
  t.after(() => spire[Symbol.asyncDispose]())
  return spire
}

const never = new AbortController().signal

function issue(client: CAClient, identity: SpiffeId): Promise<IssuedCertificate> {
  return client.issue({ identity, ttlSeconds: 60, signal: never, csr: () => assert.fail('a CSR was asked for') })
}

/** The certificate is what the agent would serve; its serial number. */
function serialOf(
  { chain, privateKey = new Uint8Array() }: IssuedCertificate,
  identity: SpiffeId,
  roots: readonly string[],
): string {
  const anchors = roots.map(pem => new X509Certificate(pem))
  const key = { privateKeyPem: privateKey }
  nodeCertificateVerifier.verify(chain, { identity, key, anchors, now: Date.now() })
  return new X509Certificate(chain[0] ?? '').serialNumber
}

/** Resolves with the first change that `is`. */
function changeOf(client: CAClient, is: (change: CAChange) => boolean): Promise<void> {
  return new Promise(resolve => {
    const subscription = client.subscribe?.(change => {
      if (!is(change)) return
      subscription?.[Symbol.dispose]()
      resolve()
    })
  })
}

const renews = (identity: SpiffeId) => (change: CAChange) =>
  change.kind === 'certificates' && change.identities?.includes(identity) === true

test('SPIRE refuses a process without an identity, and pushes the one that it gets', { skip: noSpire }, async t => {
  const spire = await start(t)
  const client = await open(t, spire)
  await assert.rejects(issue(client, WEB), {
    code: 'denied',
    message: /PERMISSION_DENIED: no identity issued.*Register one/,
  })
  const comes = changeOf(client, renews(WEB))
  await spire.register(WEB, 60)
  await comes
  serialOf(await issue(client, WEB), WEB, (await client.trustBundle?.({ signal: never })) ?? [])
  await assert.rejects(issue(client, API), { code: 'denied', message: new RegExp(`no ${API}, but: ${WEB}\\.`) })
})

test('SPIRE pushes new certificates before the old ones end, and a new root before the old one goes', {
  skip: noSpire,
}, async t => {
  const spire = await start(t)
  await spire.register(WEB, 12)
  const client = await open(t, spire)
  const roots = async () => (await client.trustBundle?.({ signal: never })) ?? []
  while ((await issue(client, WEB).catch(() => undefined)) === undefined) await changeOf(client, () => true)
  const serials = new Set([serialOf(await issue(client, WEB), WEB, await roots())])
  while (serials.size < 3) {
    await changeOf(client, renews(WEB))
    serials.add(serialOf(await issue(client, WEB), WEB, await roots()))
  }
  const [old] = await roots()
  const id = await spire.switchRoot()
  while ((await roots()).length < 2) await changeOf(client, ({ kind }) => kind === 'roots')
  serialOf(await issue(client, WEB), WEB, await roots())
  await changeOf(client, renews(WEB))
  await spire.giveUpRoot(id)
  while ((await roots()).includes(old ?? '')) await changeOf(client, ({ kind }) => kind === 'roots')
  serialOf(await issue(client, WEB), WEB, await roots())
})

test('an agent of SPIRE that dies and comes back is found again', { skip: noSpire }, async t => {
  const spire = await start(t)
  await spire.register(WEB, 60)
  const client = await open(t, spire)
  while ((await issue(client, WEB).catch(() => undefined)) === undefined) await changeOf(client, () => true)
  await spire.killAgent()
  let fault: unknown
  while (fault === undefined) {
    await setImmediate()
    fault = await issue(client, WEB).then(
      () => undefined,
      error => error,
    )
  }
  assert.ok(fault instanceof CAError && fault.code === 'unavailable', String(fault))
  const comes = changeOf(client, renews(WEB))
  await spire.startAgent()
  await comes
  serialOf(await issue(client, WEB), WEB, (await client.trustBundle?.({ signal: never })) ?? [])
})

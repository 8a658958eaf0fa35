import assert from 'node:assert/strict'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { Restarts } from '../../test/restarts.ts'
import { CAError, type CertificateRequest } from '../contract/ca-client.ts'
import type { SpiffeId } from '../spiffe/spiffe-id.ts'

const WEB = 'spiffe://cluster.local/ns/default/sa/web'
const API = 'spiffe://cluster.local/ns/default/sa/api'

interface Try {
  readonly kept: string | undefined
  readonly csr: string
}

/** Has the CA wait for an approval, and returns the requests that it got. */
function waitForApproval(restarts: Restarts): { readonly tries: Try[]; approve(): void } {
  const tries: Try[] = []
  const note = async ({ ticket, csr }: CertificateRequest) => {
    tries.push({ kept: ticket?.stored, csr: (await csr()).pem })
    return ticket
  }
  restarts.ca.answer = async request => {
    await (await note(request))?.store(`request of ${request.identity}`)
    throw new CAError('unavailable', 'not approved yet')
  }
  const approve = () => {
    restarts.ca.answer = async (request, sign) => {
      await note(request)
      return await sign(request)
    }
  }
  return { tries, approve }
}

async function runUntilPending(restarts: Restarts, ...identities: readonly SpiffeId[]): Promise<void> {
  await using run = await restarts.start()
  for (const identity of identities) run.bench.manager.add(identity)
  await run.bench.until('ca-error', identities.length)
}

const pendingFiles = async ({ directory }: Restarts) =>
  (await readdir(directory)).filter(name => name.endsWith('.pending.pem')).map(name => join(directory, name))

test('a request that waits for an approval is found again after a restart, with its key, and is gone when it is issued', async () => {
  await using restarts = await Restarts.create()
  const { tries, approve } = waitForApproval(restarts)
  await runUntilPending(restarts, WEB)
  assert.equal((await pendingFiles(restarts)).length, 1)
  approve()
  {
    await using run = await restarts.start()
    assert.ok(run.store.pending.has(WEB))
    await run.bench.add(WEB)
    assert.ok(!run.store.pending.has(WEB))
    assert.equal(run.bench.keys.handedOut.length, 0)
  }
  assert.deepEqual(
    tries.map(({ kept }) => kept),
    [undefined, `request of ${WEB}`],
  )
  assert.equal(tries[0]?.csr, tries[1]?.csr)
  assert.deepEqual(await pendingFiles(restarts), [])
})

test('a renewal that waits for an approval continues after a restart, while the old certificate is served', async () => {
  await using restarts = await Restarts.create()
  const [serial] = await restarts.runOnce(WEB)
  const { tries, approve } = waitForApproval(restarts)
  {
    await using run = await restarts.start()
    await run.bench.add(WEB)
    await run.bench.toNextDue(WEB)
    await run.bench.until('ca-error', 1)
  }
  approve()
  await using run = await restarts.start()
  assert.equal((await run.bench.add(WEB)).serialNumber, serial)
  await run.bench.toNextDue(WEB)
  await run.bench.until('issued', 1)
  assert.equal(tries[0]?.csr, tries[1]?.csr)
})

test('a pending request of an identity that is forgotten is wiped', async () => {
  await using restarts = await Restarts.create()
  waitForApproval(restarts)
  await runUntilPending(restarts, WEB)
  await using run = await restarts.start()
  run.bench.manager.add(WEB)
  run.bench.manager.forget(WEB)
  await run.store[Symbol.asyncDispose]()
  assert.deepEqual(await pendingFiles(restarts), [])
})

const damages: readonly (readonly [string, (file: string, other: string) => Promise<void>, RegExp])[] = [
  ['cut short', async file => writeFile(file, (await readFile(file)).subarray(0, -40)), /is cut short/],
  ['that of another identity', async (file, other) => writeFile(file, await readFile(other)), /is of another identity/],
]
for (const [what, damage, reason] of damages)
  test(`a pending request that is ${what} starts again, which is reported`, async () => {
    await using restarts = await Restarts.create()
    const { tries } = waitForApproval(restarts)
    await runUntilPending(restarts, WEB, API)
    const files = await pendingFiles(restarts)
    const isOfWeb = await Promise.all(files.map(async file => (await readFile(file, 'utf8')).includes(`"${WEB}"`)))
    const [web = '', api = ''] = isOfWeb[0] ? files : files.toReversed()
    await damage(web, api)
    tries.length = 0
    await using run = await restarts.start()
    run.bench.manager.add(WEB)
    await run.bench.until('ca-error', 1)
    assert.match(run.bench.last('not-restored').reason, /waits for an approval starts again/)
    assert.match(run.bench.last('not-restored').reason, reason)
    assert.equal(tries[0]?.kept, undefined)
  })

/** A service that cannot be reached for a while. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { status } from '@grpc/grpc-js'
import { isCAError } from '../../../test/citadel-setup.ts'
import { CuttableProxy } from '../../../test/cuttable-proxy.ts'
import { setUpGoogle, WEB } from '../../../test/google-ca-setup.ts'
import { Refusal } from '../../../test/google-stand-in.ts'
import { workloadRequest } from '../../testing/workload-request.ts'
import { createGoogleCa } from './plugin.ts'

const CONNECT_WITHIN_MS = 5_000
/** Within this time a CA that is back is dialled. */
const REDIAL_MS = 250

for (const service of ['cas', 'mesh-ca'] as const) {
  test(`${service}: a call that may wait for its connection succeeds as soon as the CA is back, and fails with the reason if it is not`, async t => {
    const { server, clock, context, config } = await setUpGoogle(t, { service })
    await using proxy = await CuttableProxy.start(Number(server.address.split(':')[1]))
    const endpoint = `http://127.0.0.1:${proxy.port}`
    await using client = await createGoogleCa(context, { ...config, endpoint })
    await client.issue(await workloadRequest(WEB))
    await proxy.refuse()
    await assert.rejects(client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
    const request = async () => ({ ...(await workloadRequest(WEB)), connectWithinMs: CONNECT_WITHIN_MS })
    const waits = () => clock.waitForDeadline(time => time === clock.now() + CONNECT_WITHIN_MS)
    const inVain = assert.rejects(client.issue(await request()), isCAError('unavailable', /ECONNREFUSED/))
    await waits()
    await clock.advance(CONNECT_WITHIN_MS)
    await inVain
    const waiting = client.issue(await request())
    await waits()
    await proxy.accept()
    await clock.advance(REDIAL_MS)
    await waiting
    assert.equal(clock.deadlines().length, 0)
  })

  test(`${service}: after two calls that failed the next one has a new connection, which resolves the name again`, async t => {
    const setup = await setUpGoogle(t, { service })
    await setup.client.issue(await workloadRequest(WEB))
    setup.behaviour = () => Promise.reject(new Refusal(status.UNAVAILABLE))
    for (let call = 1; call <= 2; call++)
      await assert.rejects(setup.client.issue(await workloadRequest(WEB)), isCAError('unavailable'))
    assert.equal(setup.server.connections, 1)
    setup.behaviour = undefined
    await setup.client.issue(await workloadRequest(WEB))
    assert.equal(setup.server.connections, 2)
  })
}

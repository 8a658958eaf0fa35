/** Google's two CAs, as stand-ins that sign, behind the agent and two Envoys: each identity with its own token, exchanged (STS). */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { SystemClock } from '@livery/core/plugin'
import {
  casHandler,
  configFor,
  meshCaHandler,
  openAuthority,
  startStandIn,
} from '../../ca-plugins/test/google-ca-setup.ts'
import { GoogleTokenServer, type TokenAnswer, type TokenRequest } from '../../ca-plugins/test/google-token-server.ts'
import { noEnvoy } from './envoy-bench.ts'
import { API, rotateUnderTraffic, WEB } from './envoy-rotation.ts'

const NODE = 'spiffe://cluster.local/ns/kube-system/sa/livery'

/** The token in the file is `workload.<identity>`, and what is given for it `federated.<identity>`: the stand-ins go by it. */
function exchange({ body }: TokenRequest): TokenAnswer {
  const [, identity] = /^workload\.(spiffe:.*)$/.exec(body.get('subject_token') ?? '') ?? []
  if (identity === undefined) return { status: 400, json: { error: 'invalid_request' } }
  return { status: 200, json: { access_token: `federated.${identity}`, token_type: 'Bearer', expires_in: 3600 } }
}

for (const service of ['cas', 'mesh-ca'] as const)
  test(`two Envoys do mutual TLS with certificates of ${service} while they rotate, and no request fails`, {
    skip: noEnvoy,
  }, async () => {
    using clock = new SystemClock()
    const authorities = [await openAuthority(clock)]
    const sign = service === 'cas' ? casHandler(authorities) : meshCaHandler(authorities)
    await using server = await startStandIn(service, sign)
    await using tokens = await GoogleTokenServer.start()
    tokens.answer = exchange
    await rotateUnderTraffic({
      async ca(folder) {
        for (const identity of [WEB, API, NODE])
          await writeFile(join(folder, `${identity.split('/').at(-1)}.token`), `workload.${identity}\n`)
        const endpoint = `http://${tokens.address}/v1/token`
        return {
          plugin: 'google-ca',
          ...configFor(service, server),
          // For the roots, which belong to no identity.
          tokenFile: 'livery.token',
          credentials: { source: 'sts', audience: '//iam.googleapis.com/pool', endpoint },
        }
      },
      tokenFiles: { [WEB]: 'web.token', [API]: 'api.token' },
    })
    const callers = server.calls.map(({ headers }) => headers['authorization'])
    for (const identity of [WEB, API]) assert.ok(callers.includes(`Bearer federated.${identity}`), identity)
    assert.ok(tokens.requests.length >= 2)
  })

/** An agent that is stopped while certificates end, and continues: what a frozen container does, and the lid of a laptop. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type SpiffeId, SystemClock, sleep } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { casHandler, configFor, openAuthority, startStandIn } from '../../ca-plugins/test/google-ca-setup.ts'
import { GoogleTokenServer } from '../../ca-plugins/test/google-token-server.ts'
import { LiveryProcess } from './livery-process.ts'
import { connect, openStream, type ReceivedSecret } from './sds-client.ts'

/** The first ends while the agent is stopped. */
const ENDED = 'spiffe://cluster.local/ns/default/sa/ended'
/** By what they have left then: some seconds to a minute. */
const ALIVE = ['seconds', 'half', 'minute'].map((name): SpiffeId => `spiffe://cluster.local/ns/default/sa/${name}`)
const IDENTITIES: readonly SpiffeId[] = [ENDED, ...ALIVE]
const LIFETIME_SECONDS = new Map(IDENTITIES.map((identity, index) => [identity, [7, 15, 30, 60][index] ?? 0] as const))
/** Every renewal is due within six seconds. */
const ROTATION = { ratio: 0.1, jitter: 0 }
/** A token is used up to ten seconds before its end: this one ends in the stop, too. */
const TOKEN_SECONDS = 14
/** The agent waits for the roots for two seconds at most. */
const RENEWED_WITHIN_MS = 5_000

interface World {
  readonly agent: LiveryProcess
  readonly socket: string
  /** In the order in which they were asked for: `token`, `roots`, and certificates by their identity. */
  readonly asked: string[]
  /** When the newest certificate of each identity ends at the latest, milliseconds since the epoch. */
  readonly endsAt: Map<string, number>
}

/** A CA that wants a token for its roots, too, and an agent with one request at a time, so that their order shows. */
async function start(t: TestContext, clock: SystemClock): Promise<World> {
  const asked: string[] = []
  const endsAt = new Map<string, number>()
  const sign = casHandler([await openAuthority(clock)], identity => {
    const seconds = LIFETIME_SECONDS.get(identity) ?? 0
    asked.push(identity)
    // Certificates hold whole seconds.
    endsAt.set(identity, clock.now() + (seconds + 1) * 1_000)
    return seconds
  })
  const server = await startStandIn('cas', call => {
    if (call.method === 'FetchCaCerts') asked.push('roots')
    return sign(call)
  })
  t.after(() => server[Symbol.asyncDispose]())
  const tokens = await GoogleTokenServer.start()
  t.after(() => tokens[Symbol.asyncDispose]())
  tokens.answer = () => {
    asked.push('token')
    return { status: 200, json: { access_token: 'access', token_type: 'Bearer', expires_in: TOKEN_SECONDS } }
  }
  const cwd = temporaryFolder(t)
  await writeFile(join(cwd, 'token'), 'service-account')
  const config = {
    ca: {
      plugin: 'google-ca',
      ...configFor('cas', server, { subjectMode: 'csr' }),
      tokenFile: 'token',
      credentials: { source: 'sts', audience: 'pool', endpoint: `http://${tokens.address}/v1/token` },
    },
    rotation: ROTATION,
    concurrency: 1,
    identities: IDENTITIES,
    sockets: [{ path: 'sds.sock', allow: ['spiffe://cluster.local/**'] }],
    admin: { address: '127.0.0.1:0' },
    drain: '0s',
  }
  await writeFile(join(cwd, 'livery.yaml'), JSON.stringify(config))
  const agent = new LiveryProcess(['run'], { cwd })
  t.after(() => agent[Symbol.asyncDispose]())
  return { agent, socket: join(cwd, 'sds.sock'), asked, endsAt }
}

function endOf({ certificateChain }: ReceivedSecret): number {
  return new X509Certificate(certificateChain).validToDate.getTime()
}

/** How often it was issued, as the log has it. */
function issued(identity: string): RegExp {
  return new RegExp(`"event":"issued","resource":"${identity}"`)
}

test('an agent that continues after a stop serves nothing that ended, and renews at once: token, roots, leaves by what is left', async t => {
  using clock = new SystemClock()
  const { agent, socket, asked, endsAt } = await start(t, clock)
  for (const identity of IDENTITIES) await agent.line(issued(identity))
  using stream = await openStream(socket, ALIVE)
  using connection = connect(socket)
  await connection.fetch(IDENTITIES)

  agent.kill('SIGSTOP')
  // They lie unread on an open connection until the agent continues: it reads them before any of its timers runs.
  stream.ask(IDENTITIES)
  const fetched = IDENTITIES.map(identity => connection.fetch([identity]))
  await sleep(clock, (endsAt.get(ENDED) ?? 0) - clock.now())
  const pushed = stream.answers.length
  const renewals = IDENTITIES.map(
    identity => agent.stderr.split('\n').filter(line => issued(identity).test(line)).length,
  )
  asked.length = 0
  agent.kill('SIGCONT')
  const continuedAt = clock.now()

  for (const [index, identity] of IDENTITIES.entries()) await agent.lines(issued(identity), (renewals[index] ?? 0) + 1)
  const renewedAfterMs = clock.now() - continuedAt
  const served = (await Promise.all(fetched)).flat()
  assert.deepEqual(
    served.map(({ name }) => name),
    IDENTITIES,
  )
  for (const secret of [...served, ...stream.answers.slice(pushed).flat()])
    assert.ok(endOf(secret) > continuedAt, `${secret.name} was served ${continuedAt - endOf(secret)} ms after its end`)
  await agent.line(/"event":"clock-jumped".*this process did not run for/)
  assert.deepEqual(asked.slice(0, 2), ['token', 'roots'])
  const leaves = [...new Set(asked.slice(2))]
  assert.deepEqual(
    leaves.filter(identity => identity !== ENDED),
    ALIVE,
  )
  // Where one request is made at a time, a renewal and one without a certificate take turns.
  assert.ok(leaves.indexOf(ENDED) <= 1, `asked for in this order: ${leaves.join(', ')}`)
  assert.ok(renewedAfterMs < RENEWED_WITHIN_MS, `all were renewed after ${renewedAfterMs} ms`)
})

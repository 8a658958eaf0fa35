/** Tokens of pods as secrets: replaced, withdrawn at their end whatever the clock says, and printed nowhere. */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { inspect } from 'node:util'
import { CAError } from '../contract/ca-client.ts'
import { plainKeyVault } from '../contract/key-vault.ts'
import type { SecretEvent } from '../contract/secret-event.ts'
import type { SecretItem } from '../secrets/secret-item.ts'
import type { TokenName } from '../secrets/secret-name.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { FileSecrets } from './file-secrets.ts'
import type { PodTokenSource } from './token-place.ts'

const HOUR = 3_600_000
const NAME: TokenName = { kind: 'pod-token', audience: 'https://api.example/', pod: 'uid-1' }

async function setUp(t: TestContext) {
  const clock = new FakeClock()
  const given: { token: string; lifeMs: number; fault?: unknown; look(): void } = {
    token: 'eyJ.first',
    lifeMs: HOUR,
    look: () => {},
  }
  const tokens: PodTokenSource = {
    refusal: ({ pod }) => (pod === 'uid-1' ? undefined : 'is of another pod'),
    noRoom: () => undefined,
    follow: (_, look) => {
      given.look = look
      return {
        async read() {
          if (given.fault !== undefined) throw given.fault
          return { token: given.token, lifeMs: given.lifeMs }
        },
        [Symbol.dispose]() {},
      }
    },
  }
  const events: SecretEvent[] = []
  const items: (SecretItem | undefined)[] = []
  const files = new FileSecrets({
    clock,
    vault: plainKeyVault,
    folders: [],
    tokens,
    expired: 'serve',
    onWatchError: error => assert.ifError(error),
    report: (_, event) => events.push(event),
  })
  t.after(() => files[Symbol.dispose]())
  const subscription = files.subscribe(NAME, item => items.push(item))
  const until = async (count: number): Promise<SecretEvent | undefined> => {
    while (events.length < count) await new Promise(setImmediate)
    return events[count - 1]
  }
  const served = () => {
    const item = files.current(NAME)
    return item?.kind === 'token' ? item.token.open(bytes => Buffer.from(bytes).toString()) : undefined
  }
  await until(1)
  return { clock, given, events, items, files, subscription, until, served }
}

test('a token is replaced by the next one, and neither what is kept nor what is printed shows it', async t => {
  const { given, events, items, files, until, served, subscription } = await setUp(t)
  assert.equal(served(), 'eyJ.first')
  const first = files.current(NAME)
  given.token = 'eyJ.second'
  given.look()
  await until(2)
  assert.equal(served(), 'eyJ.second')
  assert.ok(first?.kind === 'token' && first.token.isWiped)
  const printed = [JSON.stringify([events, items]), inspect([events, items, files.entries()], { depth: 9 })].join()
  assert.doesNotMatch(printed, /eyJ|Zmlyc3Q/)
  assert.deepEqual(
    files.entries().map(({ name }) => name),
    ['token://https://api.example/~uid-1'],
  )
  const second = files.current(NAME)
  subscription[Symbol.dispose]()
  assert.ok(second?.kind === 'token' && second.token.isWiped)
})

test('a token is served to its end and no longer, also if the clock is set back or certificates are served that have ended', async t => {
  const { clock, given, items, until, served } = await setUp(t)
  await clock.advance(HOUR / 2)
  clock.jump(-HOUR)
  given.fault = new CAError('unavailable', 'Cannot get the token: HTTP 503. It is asked again.', { local: true })
  given.look()
  const fault = await until(2)
  assert.deepEqual(fault, {
    kind: 'files-unusable',
    reason: 'Cannot get the token: HTTP 503. It is asked again.',
    isServed: true,
  })
  await clock.advance(HOUR / 2 - 1)
  assert.equal((await until(3))?.kind, 'ending')
  assert.equal(served(), 'eyJ.first')
  await clock.advance(1)
  assert.deepEqual(await until(4), { kind: 'withdrawn', reason: 'expired' })
  assert.deepEqual([served(), items.at(-1)], [undefined, undefined])
  given.fault = undefined
  given.token = 'eyJ.later'
  given.look()
  await until(5)
  assert.equal(served(), 'eyJ.later')
})

test('a clock that is set back holds no token back, and what was thrown is not said to be a file', async t => {
  const { clock, given, until, served } = await setUp(t)
  clock.jump(-24 * HOUR)
  given.token = 'eyJ.second'
  given.look()
  assert.equal((await until(2))?.kind, 'read-from-files')
  assert.equal(served(), 'eyJ.second')
  given.fault = new Error('boom')
  given.look()
  const fault = await until(3)
  assert.ok(fault?.kind === 'files-unusable')
  assert.equal(fault.reason, 'Cannot use token://https://api.example/~uid-1: boom. It is asked for again.')
})

test('an agent without pods says so, and a pod that may not have it is refused', async t => {
  const { files } = await setUp(t)
  assert.equal(files.refusal({ ...NAME, pod: 'uid-2' }), 'is of another pod')
  using none = new FileSecrets({
    clock: new FakeClock(),
    vault: plainKeyVault,
    folders: [],
    onWatchError: error => assert.ifError(error),
    report: () => {},
  })
  assert.match(none.refusal(NAME) ?? '', /^is a token of a pod, and this agent knows no pods: set kubernetes$/)
  assert.throws(() => none.subscribe(NAME, () => {}), /Cannot watch token:.*knows no pods/)
})

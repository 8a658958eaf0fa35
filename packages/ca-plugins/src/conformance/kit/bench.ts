/** One case's surroundings: a fake CA, the author's stand-in server around it, and a client of the plugin. */
import { AssertionError } from 'node:assert'
import type { CACapabilities, CAClient, CAContext, SpiffeId } from '@livery/core/plugin'
import { isSpiffeId } from '@livery/core/plugin'
import type { Bench } from './conformance-case.ts'
import { FakeCA } from './fake-ca.ts'
import { inTime } from './in-time.ts'
import { createKitContext } from './kit-context.ts'
import { firstOf } from './kit-request.ts'
import { MovableClock } from './movable-clock.ts'
import type { OpenedResources } from './opened-resources.ts'
import { failByThrown } from './thrown-in-callbacks.ts'

/** The argument of the author's `create`. */
export interface ConformanceSetup {
  /** The CA to serve. It outlives the server: a second `create` with it is a restart. */
  readonly ca: FakeCA
  /** The context for the plugin's `create`, as the agent would hand it over; the author adds `tls`, and knows the server. */
  readonly context: CAContext
  /** The identities that will be asked for, so that a source that brings its own keys can have them ready (`ca.bring`). */
  readonly identities: readonly SpiffeId[]
  /** Runs `close` when the case is over, the last one first. */
  after(close: () => unknown): void
}

export interface BenchOptions {
  readonly create: (setup: ConformanceSetup) => CAClient | Promise<CAClient>
  readonly capabilities: CACapabilities
  readonly trustDomain: string
  readonly patienceMs: number
  readonly timeoutMs: number | undefined
  readonly slow: boolean
  /** As for {@link FakeCA.create}. */
  readonly intermediates?: boolean | undefined
}

const IDENTITIES = 64
const PARALLEL = 64
const TTL_SECONDS = 7_200

/** Runs `use` on a new bench, and closes everything. `opened` notes what is opened meanwhile. */
export async function withBench(
  options: BenchOptions,
  opened: OpenedResources,
  use: (bench: Bench) => Promise<void>,
): Promise<void> {
  using clock = new MovableClock()
  const { create, capabilities, trustDomain, patienceMs, timeoutMs, slow, intermediates } = options
  using ca = await FakeCA.create({ clock, trustDomain, intermediates })
  const context = createKitContext(clock, trustDomain)
  const identities = identitiesOf(trustDomain)
  const closers: (() => unknown)[] = []
  const open = async () => {
    const setup = { ca, context, identities, after: (close: () => unknown) => void closers.push(close) }
    const client = await inTime(Promise.resolve(create(setup)), patienceMs, 'create()')
    // The group `close` judges whether closing works.
    closers.push(() => client[Symbol.asyncDispose]().then(undefined, () => {}))
    return client
  }
  try {
    const bench: Bench = {
      client: await open(),
      capabilities,
      clock,
      identities,
      keyType: firstOf(capabilities.keyTypes),
      ttlSeconds: TTL_SECONDS,
      parallel: PARALLEL,
      patienceMs,
      roots: () => ca.trustBundle(),
      ca,
      context,
      opened,
      timeoutMs,
      slow,
      reopen: open,
    }
    await failByThrown(() => use(bench))
  } catch (error) {
    throw withLastAnswer(error, ca)
  } finally {
    ca.release()
    for (const close of closers.reverse()) await inTime(Promise.resolve(close()), patienceMs, 'the end of the case')
  }
}

/** The error with what the CA had answered: a plugin's error need not say it. */
function withLastAnswer(error: unknown, { lastAnswer }: FakeCA): unknown {
  if (!(error instanceof Error) || lastAnswer === undefined) return error
  const message = `${error.message}\nThe last answer of the CA was ${lastAnswer}.`
  // A check of the kit has said all; the stack of another error shows where in the plugin it began.
  return Object.assign(new AssertionError({ message }), {
    cause: error instanceof AssertionError ? error.cause : error,
  })
}

function identitiesOf(trustDomain: string): readonly SpiffeId[] {
  return Array.from({ length: IDENTITIES }, (_, index) => {
    const identity = `spiffe://${trustDomain}/ns/conformance/sa/sa-${index}`
    if (isSpiffeId(identity)) return identity
    throw new TypeError(
      `Cannot run the conformance kit: trustDomain ${JSON.stringify(trustDomain)} is not a trust domain`,
    )
  })
}

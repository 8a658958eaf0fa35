/** The suite that proves a CA plugin, for any test runner. */
import assert from 'node:assert/strict'
import { type CACapabilities, type CAClient, pluginFaults } from '@livery/core/plugin'
import { BENCH_CASES } from './cases/every-case.ts'
import { leaveNothingOpen, leftOpen, openResources } from './cases/handles.ts'
import { type BenchOptions, type ConformanceSetup, withBench } from './kit/bench.ts'
import type { Bench, BenchCase } from './kit/conformance-case.ts'
import { issueWell } from './kit/expectations.ts'
import { CA_SWITCHES, type CASwitch } from './kit/fake-ca-fault.ts'
import { noteOpened } from './kit/opened-resources.ts'
import { endIfStalled } from './kit/stall-watch.ts'

/**
 * Registers one test: `test` of `node:test`, `test` or `it` of vitest. If the runner calls `run` with a context that has
 * `skip(reason)`, tests that do not apply are skipped by it; by their name they say so everywhere.
 */
export type RegisterTest = (name: string, run: (...context: readonly unknown[]) => Promise<void>) => unknown

export interface SuiteOptions {
  readonly test: RegisterTest
  /**
   * A client of the plugin at `ca`, and everything in between: a server that reads requests, asks `ca.answer()`, and
   * writes the answer in the CA's protocol. Called once a test, twice where a restart is tried.
   */
  readonly create: (setup: ConformanceSetup) => CAClient | Promise<CAClient>
  /** Calls the plugin's `check`, if it has one, with the configuration of `create`, the address of a server apart. */
  readonly check?: () => void
  /** The plugin itself: its name, capabilities and table of options are checked as the agent does when it loads one. */
  readonly plugin?: { readonly capabilities: CACapabilities; readonly check?: unknown }
  /** The capabilities, which decide which cases apply. Default: the plugin's. */
  readonly capabilities?: CACapabilities
  /**
   * The faults and powers that the harness cannot pass on, each with the reason: `{ reset: 'the client is in this process' }`. The cases that
   * need it are skipped aloud. Default: nothing.
   */
  readonly without?: Partial<Readonly<Record<CASwitch, string>>>
  /** Default `cluster.local`. */
  readonly trustDomain?: string
  /** The time after which a call counts as hanging, and its case fails, milliseconds; default 10,000. */
  readonly patienceMs?: number
  /** How long one call may take by the configuration of `create`, in milliseconds: the plugin then gives up on a silent CA. Default: unknown. */
  readonly timeoutMs?: number
  /** Whether 1,000 requests at once, thousands one after the other, and long keys are tried; default `false`. */
  readonly slow?: boolean
}

const CHECK_CASE = 'contract: check lets the configuration through at once and opens nothing, and create follows'

/**
 * Registers the cases with `test`. Their names begin with their group: `errors: …`. They share this process with the
 * handles that the group `handles` counts: let the runner run them one after the other.
 */
export function suite(options: SuiteOptions): void {
  const { test, check, plugin, without = {} } = options
  checkWithout(without)
  const bench: BenchOptions = {
    create: options.create,
    capabilities: capabilitiesOf(options),
    trustDomain: options.trustDomain ?? 'cluster.local',
    patienceMs: options.patienceMs ?? 10_000,
    timeoutMs: options.timeoutMs,
    slow: options.slow ?? false,
  }
  const register = (name: string, run: () => Promise<void>) =>
    test(name, () => endIfStalled({ name, patienceMs: bench.patienceMs }, run))
  const registerSkipped = (name: string, reason: string) =>
    test(`${name} (skipped: ${reason})`, async (...context) => skipBy(context[0], reason))
  for (const each of BENCH_CASES) {
    const reason = reasonToSkip(each, bench, without)
    const name = `${each.group}: ${each.name}`
    const { intermediates } = each
    if (reason === undefined) register(name, () => runCase({ ...bench, intermediates }, on => each.run(on)))
    else registerSkipped(name, reason)
  }
  if (plugin)
    register('contract: the agent can load the plugin: its name, capabilities and options are well-formed', async () =>
      expectShape(plugin),
    )
  if (check) register(CHECK_CASE, () => checkAndCreate(check, bench))
  else if (plugin?.check) registerSkipped(CHECK_CASE, 'the suite has no `check`')
  register('handles: no socket, timer, watcher, program or file is left open after close', () =>
    leaveNothingOpen(bench),
  )
}

function capabilitiesOf({ plugin, capabilities = plugin?.capabilities }: SuiteOptions): CACapabilities {
  if (capabilities) return capabilities
  throw new TypeError('Cannot run the conformance kit: plugin and capabilities are missing. Give one of them.')
}

function expectShape(plugin: object): void {
  const faults = pluginFaults('ca', plugin)
  assert.ok(faults.length === 0, faults.join('\n'))
}

/** A resource that a case leaves open fails the group `handles`, and keeps no other case from ending. */
async function runCase(options: BenchOptions, run: (on: Bench) => Promise<void>): Promise<void> {
  await noteOpened(opened => withBench(options, opened, run))
}

function reasonToSkip(
  { group, needs = [], skip, slow: isSlow = false }: BenchCase,
  { capabilities, slow }: BenchOptions,
  without: Partial<Readonly<Record<CASwitch, string>>>,
): string | undefined {
  const reason = skip?.(capabilities)
  if (reason !== undefined) return reason
  if (isSlow && !slow) return 'takes long: set `slow`'
  for (const need of needs) if (without[need] !== undefined) return `${group} without ${need}: ${without[need]}`
  return undefined
}

function skipBy(context: unknown, reason: string): void {
  if (typeof context !== 'object' || context === null || !('skip' in context)) return
  if (typeof context.skip === 'function') context.skip(reason)
}

async function checkAndCreate(check: () => unknown, bench: BenchOptions): Promise<void> {
  const before = openResources()
  assert.equal(check(), undefined, 'check() answers by what it throws, and by nothing else')
  assert.deepEqual(leftOpen(before), [], 'check() opened these')
  await runCase(bench, async on => void (await issueWell(on)))
}

function checkWithout(without: Partial<Readonly<Record<string, string>>>): void {
  const known: readonly string[] = CA_SWITCHES
  for (const [name, reason] of Object.entries(without)) {
    if (!known.includes(name))
      throw new TypeError(
        `Cannot run the conformance kit: without.${name} is not a switch. There are ${known.join(', ')}.`,
      )
    if (!reason?.trim())
      throw new TypeError(`Cannot run the conformance kit: without.${name} is empty. Say why it cannot be passed on.`)
  }
}

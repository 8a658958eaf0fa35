/** A plugin from a module: a short-lived process describes it, and each client runs in a separate process. */
import {
  type AgentKey,
  type CAPlugin,
  type Clock,
  type CredentialPlugin,
  type PluginOption,
  type PluginOptions,
  SystemClock,
  scrub,
  withDeadline,
} from '@livery/core/plugin'
import { isTreeObject, type Tree, type TreeObject } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import { createIsolatedCAClient } from './isolated-ca-client.ts'
import { createIsolatedCredentials } from './isolated-credentials.ts'
import { FIX_MODULE } from './load-module.ts'
import type { Manifest, PluginMethods, PluginModule, Question } from './messages.ts'
import { manifestFaults } from './plugin-manifest.ts'
import { PluginProcess } from './plugin-process.ts'
import type { Peer } from './two-way-calls.ts'
import { toWire } from './wire-error.ts'

/** Why a module gives no plugin: texts that follow its name. */
interface Faults {
  readonly faults: readonly Fault[]
}

const LOAD_MS = 30_000
/** Faults shown per module. */
const MAX_FAULTS = 20

/**
 * `section`: the keys beside the module's name; the module checks their values. `signal` aborts this and every `check` of
 * the plugin. Never rejects.
 */
export async function loadIsolatedCAPlugin(
  module: PluginModule,
  section: TreeObject,
  clock: Clock = new SystemClock(),
  signal?: AbortSignal,
): Promise<CAPlugin | Faults> {
  const manifest = await describe(module, section, clock, signal)
  if ('faults' in manifest) return manifest
  const { name, options, needs = [], capabilities } = manifest
  if (!capabilities) return { faults: [new Fault('has a plugin without capabilities', FIX_MODULE)] }
  return {
    apiVersion: 1,
    name,
    capabilities,
    options,
    needs,
    ...checkOf(module, manifest, clock, signal),
    create: (context, config) => createIsolatedCAClient({ module, name, capabilities }, context, config),
  }
}

/** The same for a source of credentials, which the caller disposes. */
export async function loadIsolatedCredentials(
  module: PluginModule,
  section: TreeObject,
  clock: Clock = new SystemClock(),
  signal?: AbortSignal,
): Promise<CredentialPlugin | Faults> {
  const manifest = await describe(module, section, clock, signal)
  if ('faults' in manifest) return manifest
  const { name, options } = manifest
  return {
    apiVersion: 1,
    name,
    options,
    ...checkOf(module, manifest, clock, signal),
    create: (context, config) => createIsolatedCredentials({ module, name }, context, config),
  }
}

async function describe(
  module: PluginModule,
  section: TreeObject,
  clock: Clock,
  signal: AbortSignal | undefined,
): Promise<Manifest | Faults> {
  try {
    return await withRun({ module, clock, signal, late: 'it was not loaded' }, async (peer, stop) => {
      const described = await peer.call('describe', null, stop)
      if (described.kind === 'faults') return shownFaults(described.faults)
      const { manifest } = described
      const faults = manifestFaults(module.kind, manifest)
      if (faults.length > 0) return shownFaults(faults)
      const questions = questionsOf(manifest.options, section)
      const answers = questions.length === 0 ? [] : await peer.call('problems', questions, stop)
      const problems = new Map(questions.map((question, index) => [keyOf(question), shownProblem(answers[index])]))
      return { ...manifest, options: withProblems(manifest.options, problems) }
    })
  } catch (error) {
    return { faults: [new Fault(`cannot be loaded: ${scrub(toWire(error).message)}`, FIX_MODULE)] }
  }
}

/** A process may send any text. */
function shownFaults(faults: readonly Fault[]): Faults {
  const shown = faults.slice(0, MAX_FAULTS)
  return { faults: shown.map(({ reason, remedy }) => new Fault(scrub(reason), scrub(remedy))) }
}

/** The plugin's check, again in a process: the values to check are known only once its options are. */
function checkOf(module: PluginModule, { checks }: Manifest, clock: Clock, signal: AbortSignal | undefined) {
  if (!checks) return {}
  const check = (config: unknown, siblings: ReadonlySet<AgentKey> = new Set()): Promise<void> =>
    withRun({ module, clock, signal, late: 'it gave no answer' }, (peer, stop) =>
      peer.call('check', { config, siblings }, stop),
    )
  return { check }
}

/** Settings for one use of a process. */
interface Errand {
  readonly module: PluginModule
  readonly clock: Clock
  readonly signal: AbortSignal | undefined
  readonly late: string
}

/** A process for the duration of `use`; rejects with how it ended, with `late` if it took too long, or as `signal` says. */
async function withRun<T>(
  { module, clock, signal, late }: Errand,
  use: (peer: Peer<PluginMethods>, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const error = () => new Error(`${late} within ${LOAD_MS / 1000} s`)
  await using run = new PluginProcess(module, {}, { debug() {} })
  const { peer } = run
  void run.ended.then(reason => peer.close(new Error(`it ${reason}`)))
  return await withDeadline({ clock, ms: LOAD_MS, error, ...(signal && { signal }) }, ending => use(peer, ending))
}

function shownProblem(problem: unknown): string | undefined {
  return problem === null || problem === undefined ? undefined : scrub(problem)
}

/** The values of options that have a check. */
function questionsOf(options: PluginOptions, section: Tree, parent = ''): Question[] {
  if (Array.isArray(section)) return section.flatMap(item => questionsOf(options, item, parent))
  if (!isTreeObject(section)) return []
  return Object.entries(options).flatMap(([name, option]) => {
    const value = section[name]
    const path = `${parent}${name}`
    if (value === undefined) return []
    if (option.type === 'object' || option.type === 'objects') return questionsOf(option.options, value, `${path}.`)
    return option.type === 'string' && option.problem && typeof value === 'string' ? [{ option: path, value }] : []
  })
}

/** The options with functions again, which return the known answers. */
function withProblems(
  options: PluginOptions,
  problems: ReadonlyMap<string, string | undefined>,
  parent = '',
): PluginOptions {
  const revive = (name: string, option: PluginOption): PluginOption => {
    const path = `${parent}${name}`
    if (option.type === 'object' || option.type === 'objects')
      return { ...option, options: withProblems(option.options, problems, `${path}.`) }
    if (option.type !== 'string' || !option.problem) return option
    return { ...option, problem: value => problems.get(keyOf({ option: path, value })) }
  }
  return Object.fromEntries(Object.entries(options).map(([name, option]) => [name, revive(name, option)]))
}

function keyOf({ option, value }: Question): string {
  return `${option}\0${value}`
}

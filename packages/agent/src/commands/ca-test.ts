/** `livery ca test`: proves a CA plugin at its live CA, with the conformance kit. */
import { type ConformanceReport, type ConformanceResult, runAgainst } from '@livery/ca-plugins/conformance'
import {
  type CAClient,
  isSpiffeId,
  type SpiffeId,
  SystemClock,
  shareFolders,
  spiffeIdProblem,
} from '@livery/core/plugin'
import { createCAClient } from '../ca/create-ca-client.ts'
import { signableKeyType } from '../config/ca-section.ts'
import type { ConfiguredIdentity } from '../config/identities.ts'
import type { ConfigSources } from '../config/layers.ts'
import { type LoadedCA, loadCA } from '../config/load.ts'
import { createLogger } from '../observe/logger.ts'
import { PluginCounters } from '../observe/plugin-counters.ts'
import { Registry } from '../observe/prometheus.ts'
import { EXIT, UsageError } from './exit-code.ts'
import { untilInterrupted } from './interrupt.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

export interface CATestOptions {
  readonly identity?: string
  readonly parallel: string
}

/** Resolves with the exit code; rejects with a `ConfigError` or `UsageError`. SIGINT ends the run after the case at hand. */
export async function testCA(
  options: CATestOptions,
  sources: ConfigSources,
  { json }: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  const parallel = parseParallel(options.parallel)
  if (options.identity !== undefined) checkIdentity(options.identity)
  const loaded = await loadCA(sources)
  for (const warning of loaded.warnings) terminal.err(`livery: warning: ${warning}\n`)
  const identity = identityFor(options.identity, loaded)
  shareFolders(loaded.config.sharedFolders)
  await using sink = await createLogger({ level: 'warn', format: json || !terminal.terminal ? 'json' : 'pretty' })
  await using stack = new AsyncDisposableStack()
  const clock = stack.use(new SystemClock())
  const parts = { clock, logger: sink.logger, counters: new PluginCounters(new Registry()) }
  const client = await createCAClient(loaded, parts, stack)
  const { capabilities: declared, name } = loaded.config.ca.plugin
  // A single identity's folder has no list for the trust domain, though the plugin can have one.
  const capabilities = client.trustBundle ? declared : { ...declared, roots: 'none' as const }
  terminal.err(`livery: asking the CA of ${name} for ${identity.id}\n`)
  const report = await untilInterrupted(signal =>
    runAgainst(withTokenFile(client, identity.tokenFile), {
      capabilities,
      identities: [identity.id],
      keyType: signableKeyType(loaded.config.ca, loaded.config.keyType),
      parallel,
      signal,
      report: ({ outcome }) => terminal.err(SIGNS[outcome]),
    }),
  )
  terminal.err('\n')
  const about = { plugin: name, identity: identity.id, capabilities }
  terminal.out(json ? `${printableJson({ ...about, ...report })}\n` : reportText(report))
  return report.failed > 0 || report.passed === 0 ? EXIT.failed : EXIT.ok
}

const SIGNS: Readonly<Record<ConformanceResult['outcome'], string>> = { passed: '.', failed: 'F', skipped: '-' }

function parseParallel(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count >= 1 && count <= 1_000) return count
  throw new UsageError(`--parallel ${JSON.stringify(text)} is not a whole number from 1 to 1000.`)
}

function checkIdentity(text: string): asserts text is SpiffeId {
  const problem = spiffeIdProblem(text)
  if (problem !== undefined)
    throw new UsageError(
      `--identity ${JSON.stringify(text)} is not a SPIFFE ID: ${problem.startsWith('its') ? problem : `it ${problem}`}.`,
    )
}

function identityFor(
  wanted: string | undefined,
  { config: { identities } }: LoadedCA,
): Pick<ConfiguredIdentity, 'id' | 'tokenFile'> {
  const [first] = identities
  if (wanted !== undefined && isSpiffeId(wanted))
    return identities.find(({ id }) => id === wanted) ?? { id: wanted, tokenFile: undefined }
  if (first) return first
  throw new UsageError('there is no identity to ask for: name one with --identity, or under identities.')
}

/** The identity has its own token: each request names it, as the agent's do. */
function withTokenFile(client: CAClient, tokenFile: string | undefined): CAClient {
  if (tokenFile === undefined) return client
  return {
    issue: request => client.issue({ tokenFile, ...request }),
    ...(client.trustBundle && { trustBundle: client.trustBundle.bind(client) }),
    ...(client.subscribe && { subscribe: client.subscribe.bind(client) }),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  }
}

/** One line per case, by group; a failed case has its reason below. */
export function reportText({ results, passed, failed, skipped }: ConformanceReport): string {
  const lines: string[] = []
  let group = ''
  for (const result of results) {
    if (result.group !== group) lines.push(result.group)
    group = result.group
    lines.push(...caseLines(result))
  }
  const ms = results.reduce((sum, result) => sum + result.ms, 0)
  lines.push('', `${passed} passed, ${failed} failed, ${skipped} skipped in ${(ms / 1000).toFixed(1)} s`)
  return `${lines.join('\n')}\n`
}

function caseLines({ name, outcome, detail, ms }: ConformanceResult): string[] {
  if (outcome === 'skipped') return [`  skipped           ${name}: ${detail}`]
  const line = `  ${outcome === 'failed' ? 'FAILED' : 'passed'} ${`${ms} ms`.padStart(9)}  ${name}`
  return detail === ''
    ? [line]
    : [
        line,
        ...detail
          .trimEnd()
          .split('\n')
          .map(text => `                    ${text}`),
      ]
}

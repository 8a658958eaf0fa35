/** `livery certs`: the identities of the running agent, and the secrets in files that are streamed. */
import { setTimeout as sleep } from 'node:timers/promises'
import { oneLine } from '@livery/core/plugin'
import { didYouMean } from '../admin/similar-name.ts'
import type { ConfigSources } from '../config/layers.ts'
import { certificateTable } from './certificate-table.ts'
import { EXIT, UsageError } from './exit-code.ts'
import { untilInterrupted } from './interrupt.ts'
import { bySoonestExpiry, type Listed, listCertificates, nameOf } from './listed-certificates.ts'
import type { GlobalOptions, Terminal } from './terminal.ts'
import { printableJson } from './text-layout.ts'

export interface CertsOptions {
  /** Lists only what is in trouble. */
  readonly failing?: boolean
  readonly sort?: 'name' | 'expiry'
  /** Refreshes the list until SIGINT. */
  readonly watch?: boolean
  /** The name of the certificate to show in full. */
  readonly text?: string
  /** An argument, refused with a hint at the commands that take one. */
  readonly name?: string | undefined
}

/** Resolves with the exit code; rejects where no agent answers. */
export async function showCertificates(
  options: CertsOptions,
  sources: ConfigSources,
  globals: GlobalOptions,
  terminal: Terminal,
): Promise<number> {
  if (options.name !== undefined) throw new UsageError(takesNoName(options.name))
  if (options.text !== undefined) return await showText(options.text, sources, terminal)
  if (options.watch && globals.json)
    throw new UsageError('--watch is for people. Leave out --json, or call livery certs again and again.')
  const certificates = await listCertificates(sources)
  if (options.watch) await untilInterrupted(signal => watch(certificates, options, { sources, terminal, signal }))
  else
    terminal.out(
      globals.json ? `${printableJson(select(certificates, options))}\n` : table(certificates, options, terminal),
    )
  return EXIT.ok
}

function takesNoName(name: string): string {
  const text = oneLine(name)
  return `livery certs lists all and takes no name. Run: livery explain ${text} (what happened to it), or livery certs --text ${text} (its certificate)`
}

function select(certificates: readonly Listed[], { failing, sort }: CertsOptions): readonly Listed[] {
  const shown = failing ? certificates.filter(({ reason }) => reason !== undefined) : certificates
  return sort === 'expiry' ? shown.toSorted(bySoonestExpiry) : shown
}

function table(certificates: readonly Listed[], options: CertsOptions, { columns }: Terminal): string {
  const shown = select(certificates, options)
  if (shown.length === 0 && certificates.length > 0) return `None of ${certificates.length} fails.\n`
  return certificateTable(shown, Date.now(), columns)
}

async function showText(name: string, sources: ConfigSources, terminal: Terminal): Promise<number> {
  const all = await listCertificates(sources)
  const found = all.find(each => nameOf(each) === name)
  if (!found)
    throw new Error(
      `${JSON.stringify(name)} is not held.${didYouMean(name, all.map(nameOf))} livery certs lists the names`,
    )
  if ('name' in found) throw new Error(`${name} is in files. Run: openssl x509 -noout -text -in FILE`)
  if (found.certChain.length === 0)
    throw new Error(`${name} has no certificate now (${found.state}). livery explain ${name} shows why`)
  // Loaded only here: it takes as long as all the rest of a command.
  const { certificateText } = await import('./certificate-text.ts')
  terminal.out(readableText(() => certificateText(found), name))
  return EXIT.ok
}

/** Another program may have answered. */
function readableText(write: () => string, name: string): string {
  try {
    return write()
  } catch (cause) {
    throw new Error(`the agent has answered with a certificate of ${name} that cannot be read`, { cause })
  }
}

const LEAST_PAUSE_MS = 2_000
/** A dump of 10,000 identities is 40 MB: the agent spends at most a fifth of its time on it. */
const PAUSE_FACTOR = 4

interface WatchContext {
  readonly sources: ConfigSources
  readonly terminal: Terminal
  readonly signal: AbortSignal
}

/** Waits for an agent that restarts. */
async function watch(first: readonly Listed[], options: CertsOptions, context: WatchContext): Promise<void> {
  const { sources, terminal, signal } = context
  const show = (text: string) => {
    terminal.clear?.()
    terminal.out(`${text}\n`)
  }
  let pause = LEAST_PAUSE_MS
  show(table(first, options, terminal))
  while (await hasPassed(pause, signal)) {
    const started = performance.now()
    const text = await listCertificates(sources).then(
      certificates => table(certificates, options, terminal),
      (error: unknown) => `livery: ${error instanceof Error ? error.message : String(error)}\n`,
    )
    pause = Math.max(LEAST_PAUSE_MS, PAUSE_FACTOR * (performance.now() - started))
    show(text)
  }
}

/** `false` if the signal ended it. */
async function hasPassed(ms: number, signal: AbortSignal): Promise<boolean> {
  await sleep(ms, undefined, { signal }).catch(() => {})
  return !signal.aborted
}

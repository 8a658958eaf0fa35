/** The context that the agent gives a plugin, for tests: it records log lines and counts. */
import type { CAContext, PluginLog } from '@livery/core/plugin'
import { FakeClock } from '@livery/core/testing'

/** A context that records log lines and counts. */
export interface RecordingContext extends CAContext {
  readonly lines: readonly { readonly level: keyof PluginLog; readonly message: string }[]
  /** Counts by the counter's name. */
  readonly counts: ReadonlyMap<string, number>
}

/** A {@link FakeClock} and the trust domain `cluster.local`, unless `parts` has others; no credentials, no TLS. */
export function pluginContext(parts: Partial<CAContext> = {}): RecordingContext {
  const lines: { level: keyof PluginLog; message: string }[] = []
  const counts = new Map<string, number>()
  const line = (level: keyof PluginLog) => (message: string) => void lines.push({ level, message })
  return {
    clock: new FakeClock(),
    trustDomain: 'cluster.local',
    log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
    metrics: {
      counter: name => ({ add: (count = 1) => void counts.set(name, (counts.get(name) ?? 0) + count) }),
    },
    ...parts,
    lines,
    counts,
  }
}

/** The warnings among the lines. */
export function warningsOf({ lines }: RecordingContext): readonly string[] {
  return lines.filter(({ level }) => level === 'warn').map(({ message }) => message)
}

/** Opens the traces of certificates, or checks that they can be opened, where the configuration says where they are sent. */
import type { LoadedConfig } from '../config/load.ts'
import { type ConfigNode, Location } from '../schema/config-tree.ts'
import type { CertificateTraces } from '../tracing/certificate-traces.ts'
import type { TracingOptions } from '../tracing/tracing.ts'
import { VERSION } from './version.ts'

/** Adds what has to be closed to `stack`. Rejects with a `ConfigError` where packages are missing. */
export async function openTraces(
  { config: { tracing }, root }: LoadedConfig,
  parts: Pick<TracingOptions, 'clock' | 'logger'>,
  stack: AsyncDisposableStack,
): Promise<CertificateTraces | undefined> {
  if (!tracing) return undefined
  const { openTracing } = await import('../tracing/tracing.ts')
  return stack.use(await openTracing({ ...parts, ...tracing, at: receiverOf(root), version: VERSION })).certificates
}

/** Rejects with a `ConfigError` where packages are missing that the configured traces need. */
export async function checkTraces({ config: { tracing }, root }: LoadedConfig): Promise<void> {
  if (!tracing) return
  const { loadTracePackages } = await import('../tracing/tracing.ts')
  await loadTracePackages(receiverOf(root))
}

function receiverOf(root: ConfigNode): Location {
  return new Location(root, ['tracing', 'otlp'])
}

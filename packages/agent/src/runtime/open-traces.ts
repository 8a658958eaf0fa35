/** Opens the traces of certificates, where the configuration says where they are sent. */
import type { LoadedConfig } from '../config/load.ts'
import { Location } from '../schema/config-tree.ts'
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
  const at = new Location(root, ['tracing', 'otlp'])
  return stack.use(await openTracing({ ...parts, ...tracing, at, version: VERSION })).certificates
}

/** Traces by OpenTelemetry: its packages are loaded, and an exporter opened, only where tracing is configured. */
import { type Clock, scrub, withDeadline } from '@livery/core'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { Logger } from '../observe/logger.ts'
import { ConfigError } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { CertificateTraces } from './certificate-traces.ts'
import { Spans, type TraceApi } from './spans.ts'

export interface TracingOptions {
  /** Where spans are sent: OTLP over HTTP, with protobuf. */
  readonly otlp: string
  /** The part of the traces that is sampled, 0 to 1. */
  readonly ratio: number
  /** Where that is written. */
  readonly at: Location
  readonly version: string
  readonly clock: Clock
  readonly logger: Logger
}

/** How long the last spans may take before the process ends without them. */
const LAST_SPANS_MS = 2_000

/** Optional peers: 20 MB that most agents do without. */
const PACKAGES = [
  '@opentelemetry/api',
  '@opentelemetry/resources',
  '@opentelemetry/sdk-trace',
  '@opentelemetry/exporter-trace-otlp-proto',
] as const

/** Disposing it exports what is left, for two seconds at most. */
export interface Tracing extends AsyncDisposable {
  readonly certificates: CertificateTraces
}

/** Rejects with a {@link ConfigError} where the packages of OpenTelemetry are missing. */
export async function openTracing({ otlp, ratio, at, version, clock, logger }: TracingOptions): Promise<Tracing> {
  const { api, sdk, exporter, resources } = await loadTracePackages(at)
  const { envDetector, resourceFromAttributes } = resources
  const named = resourceFromAttributes({ 'service.name': 'livery', 'service.version': version })
  const spanExporter = reporting(new exporter.OTLPTraceExporter({ url: otlp }), logger)
  const provider = new sdk.TracerProvider({
    resource: named.merge(resources.detectResources({ detectors: [envDetector] })),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(ratio) }),
    // Beyond 2,048 spans that wait for the receiver, further ones are dropped.
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: spanExporter })],
  })
  const certificates = new CertificateTraces(new Spans(api, provider.getTracer('livery', version), clock), clock)
  return {
    certificates,
    async [Symbol.asyncDispose]() {
      certificates[Symbol.dispose]()
      const error = () => new Error(`the receiver did not take them within ${LAST_SPANS_MS} ms`)
      try {
        await withDeadline({ clock, ms: LAST_SPANS_MS, error }, () => provider.shutdown())
      } catch (failure) {
        logger.warn(`the last spans are lost: ${scrub(failure)}`)
      }
    },
  }
}

/** `at`: the setting that needs them. Rejects with a {@link ConfigError} where one cannot be loaded. */
export async function loadTracePackages(at: Location) {
  try {
    const [api, resources, sdk, exporter] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-proto'),
    ])
    return { api: api satisfies TraceApi, resources, sdk, exporter }
  } catch (error) {
    const reason = `needs packages of OpenTelemetry, which cannot be loaded (${scrub(error)})`
    const remedy = `Install them beside Livery (npm install ${PACKAGES.join(' ')}), or remove the setting`
    throw new ConfigError([at.problem({ reason, remedy })])
  }
}

/** Logs when the receiver begins to fail, and when it takes spans again. */
function reporting(exporter: SpanExporter, logger: Logger): SpanExporter {
  let isFailing = false
  return {
    export(spans, done) {
      exporter.export(spans, result => {
        const { error } = result
        if (error && !isFailing) logger.warn(`spans are lost, their receiver does not take them: ${scrub(error)}`)
        if (!error && isFailing) logger.info('the receiver takes spans again')
        isFailing = error !== undefined
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
}

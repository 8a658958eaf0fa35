/** The variables of OpenTelemetry that set keys of `tracing`. Its exporter reads others itself: headers, timeout, compression, certificates. */
import { ConfigError } from '../schema/config-error.ts'
import type { Environment, Setting } from './environment.ts'

const PROTOCOL = 'http/protobuf'

/** https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ */
export function tracingSettings(environment: Environment): Setting[] {
  const { OTEL_SDK_DISABLED: isDisabled, OTEL_TRACES_EXPORTER: exporters } = environment
  const isOn = isDisabled?.toLowerCase() !== 'true' && (exporters || 'otlp').split(',').includes('otlp')
  return isOn ? [endpoint(environment), ratio(environment)].filter(setting => setting !== undefined) : []
}

function endpoint(environment: Environment): Setting | undefined {
  const path = ['tracing', 'otlp']
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: whole, OTEL_EXPORTER_OTLP_ENDPOINT: base } = environment
  if (!whole && !base) return undefined
  refuseOtherProtocol(environment)
  if (whole) return { path, value: whole, variable: 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', text: whole }
  const value = `${base?.replace(/\/*$/, '')}/v1/traces`
  return { path, value, variable: 'OTEL_EXPORTER_OTLP_ENDPOINT', text: base ?? '' }
}

function ratio(environment: Environment): Setting | undefined {
  const path = ['tracing', 'ratio']
  const { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: part } = environment
  if (!sampler) return undefined
  const name = sampler.replace('parentbased_', '')
  const of = { variable: 'OTEL_TRACES_SAMPLER', text: sampler }
  if (name === 'always_on') return { path, value: 1, ...of }
  if (name === 'always_off') return { path, value: 0, ...of }
  if (name !== 'traceidratio' || !part) return { path, value: name === 'traceidratio' ? 1 : sampler, ...of }
  // Text that is not a number stays text, for the schema to refuse.
  const value = /^\d*\.?\d+$/.test(part) ? Number(part) : part
  return { path, value, variable: 'OTEL_TRACES_SAMPLER_ARG', text: part }
}

function refuseOtherProtocol(environment: Environment): void {
  const names = ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']
  const variable = names.find(name => environment[name])
  const text = variable && environment[variable]
  if (!text || text === PROTOCOL) return
  const reason = `${JSON.stringify(text)} is not ${PROTOCOL}, in which spans are sent`
  const remedy = `Name the port of the receiver for HTTP, mostly 4318, and write ${PROTOCOL}`
  throw new ConfigError([{ origin: { kind: 'environment', variable, text }, path: 'tracing.otlp', reason, remedy }])
}

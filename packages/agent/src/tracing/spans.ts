/** Spans of OpenTelemetry, as the rest of the agent makes and reads them. */
import type { Clock } from '@livery/core'
import type { Attributes, Span, Tracer } from '@opentelemetry/api'

export type { Attributes, Span } from '@opentelemetry/api'

/** The package itself, which is loaded only where tracing is configured. */
export type TraceApi = Pick<
  typeof import('@opentelemetry/api'),
  'ROOT_CONTEXT' | 'SpanKind' | 'SpanStatusCode' | 'trace'
>

export interface SpanOptions {
  /** Default: it begins a trace. */
  readonly parent?: Span | undefined
  readonly attributes?: Attributes
  /** A call to another program. Default: false. */
  readonly isCall?: boolean
}

/** How far the time of spans may be from the clock, milliseconds: more is a clock that was set, or sleep. */
const MAX_DRIFT_MS = 2

export class Spans {
  readonly #api: TraceApi
  readonly #tracer: Tracer
  readonly #clock: Clock
  #anchor = { wallMs: 0, monotonicMs: 0 }

  constructor(api: TraceApi, tracer: Tracer, clock: Clock) {
    this.#api = api
    this.#tracer = tracer
    this.#clock = clock
  }

  start(name: string, { parent, attributes = {}, isCall = false }: SpanOptions = {}): Span {
    const { ROOT_CONTEXT, SpanKind, trace } = this.#api
    const context = parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT
    const kind = isCall ? SpanKind.CLIENT : SpanKind.INTERNAL
    return this.#tracer.startSpan(name, { kind, attributes, startTime: this.#now() }, context)
  }

  /** Something that happened in a span. */
  note(span: Span, what: string, attributes: Attributes): void {
    span.addEvent(what, attributes, this.#now())
  }

  end(span: Span | undefined): void {
    span?.end(this.#now())
  }

  /** Ends a span as failed. `type` is of a closed set; `message` must hold no secret. */
  fail(span: Span, type: string, message: string): void {
    span.setAttribute('error.type', type)
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR, message })
    this.end(span)
  }

  /** The span that a `traceparent` names, as a parent; `undefined` for another text. */
  parentOf(traceparent: string): Span | undefined {
    const [, traceId, spanId, flags] = TRACEPARENT.exec(traceparent) ?? []
    if (traceId === undefined || spanId === undefined || flags === undefined) return undefined
    return this.#api.trace.wrapSpanContext({ traceId, spanId, traceFlags: Number.parseInt(flags, 16) })
  }

  /** Milliseconds since the epoch, with a fraction: several spans begin and end in one of the clock's. */
  #now(): number {
    const monotonicMs = performance.now()
    const wallMs = this.#clock.now()
    const now = this.#anchor.wallMs + monotonicMs - this.#anchor.monotonicMs
    if (Math.abs(now - wallMs) <= MAX_DRIFT_MS) return now
    this.#anchor = { wallMs, monotonicMs }
    return wallMs
  }
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/

/** W3C Trace Context, section 3.2. */
export function traceparentOf(span: Span): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`
}

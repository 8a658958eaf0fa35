/** A receiver of traces: OTLP over HTTP with protobuf, as a collector has it (opentelemetry-proto, trace/v1/trace.proto). */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { BinaryReader } from '@bufbuild/protobuf/wire'

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty for a root. */
  readonly parentSpanId: string
  readonly name: string
  /** 1 internal, 3 a call. */
  readonly kind: number
  /** Nanoseconds since the epoch. */
  readonly start: bigint
  readonly end: bigint
  readonly attributes: Readonly<Record<string, string>>
  readonly events: readonly string[]
  /** 2 is an error. */
  readonly status: { readonly code: number; readonly message: string }
}

export class OtlpReceiver implements AsyncDisposable {
  readonly spans: ReceivedSpan[] = []
  /** The attributes of the process that sent them. */
  readonly resource: Record<string, string> = {}
  /** All that came, as it came. */
  readonly bodies: Buffer[] = []
  readonly url: string
  /** Each answer waits for it. */
  answering: Promise<void> = Promise.resolve()
  readonly #server: Server
  readonly #waiting = new Set<() => void>()

  private constructor(server: Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces`
    server.on('request', async (request, response) => {
      const body = Buffer.concat(await request.toArray())
      if (request.url !== '/v1/traces' || request.headers['content-type'] !== 'application/x-protobuf')
        return void response.writeHead(400).end()
      this.bodies.push(body)
      for (const [number, value] of fieldsOf(body)) if (number === 1) this.#take(bytesOf(value))
      for (const look of this.#waiting) look()
      await this.answering
      response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end()
    })
  }

  static async start(): Promise<OtlpReceiver> {
    const server = createServer()
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return new OtlpReceiver(server)
  }

  /** Resolves when a request has come. */
  async received(): Promise<void> {
    if (this.bodies.length > 0) return
    await new Promise<void>(resolve => this.#waiting.add(resolve))
  }

  /** In the order in which they began; of the root that is first, where it has that attribute. */
  trace(attribute: string, value: string): readonly ReceivedSpan[] {
    const root = this.spans.find(span => span.parentSpanId === '' && span.attributes[attribute] === value)
    return this.spans.filter(span => span.traceId === root?.traceId).sort((a, b) => (a.start < b.start ? -1 : 1))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #take(resourceSpans: Uint8Array): void {
    for (const [number, value] of fieldsOf(resourceSpans)) {
      if (number === 1)
        for (const [field, each] of fieldsOf(bytesOf(value))) if (field === 1) addTo(this.resource, each)
      if (number !== 2) continue
      for (const [field, span] of fieldsOf(bytesOf(value))) if (field === 2) this.spans.push(spanOf(bytesOf(span)))
    }
  }
}

type Value = Uint8Array | bigint

function* fieldsOf(bytes: Uint8Array): Generator<readonly [number, Value], void> {
  const reader = new BinaryReader(bytes)
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag()
    if (wireType === 2) yield [number, reader.bytes()]
    else if (wireType === 1) yield [number, BigInt(reader.fixed64())]
    else if (wireType === 0) yield [number, BigInt(reader.uint64())]
    else reader.skip(wireType)
  }
}

function spanOf(bytes: Uint8Array): ReceivedSpan {
  const fields = [...fieldsOf(bytes)]
  const field = (number: number): Value | undefined => fields.find(([each]) => each === number)?.[1]
  const all = (number: number): Uint8Array[] =>
    fields.filter(([each]) => each === number).map(([, value]) => bytesOf(value))
  const attributes: Record<string, string> = {}
  for (const pair of all(9)) addTo(attributes, pair)
  const status = new Map(fieldsOf(bytesOf(field(15))))
  return {
    traceId: Buffer.from(bytesOf(field(1))).toString('hex'),
    spanId: Buffer.from(bytesOf(field(2))).toString('hex'),
    parentSpanId: Buffer.from(bytesOf(field(4))).toString('hex'),
    name: textOf(field(5)),
    kind: Number(field(6)),
    start: timeOf(field(7)),
    end: timeOf(field(8)),
    attributes,
    events: all(11).map(event => textOf(new Map(fieldsOf(event)).get(2))),
    status: { code: Number(status.get(3) ?? 0), message: textOf(status.get(2)) },
  }
}

function addTo(attributes: Record<string, string>, pair: Value): void {
  const fields = new Map(fieldsOf(bytesOf(pair)))
  const [[, value] = []] = fieldsOf(bytesOf(fields.get(2)))
  attributes[textOf(fields.get(1))] = typeof value === 'bigint' ? String(value) : textOf(value)
}

function bytesOf(value: Value | undefined): Uint8Array {
  return value instanceof Uint8Array ? value : new Uint8Array()
}

function textOf(value: Value | undefined): string {
  return Buffer.from(bytesOf(value)).toString()
}

function timeOf(value: Value | undefined): bigint {
  return typeof value === 'bigint' ? value : 0n
}

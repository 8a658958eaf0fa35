/** The peers of `figures.ts`, in a separate process. */
import { DiscoveryResponse } from '../src/gen/envoy/service/discovery/v3/discovery.ts'
import { RawPeer, type RawStream } from './raw-peer.ts'

export type FiguresOrder =
  /** Opens streams for ROOTCA and waits for the first answer to each; from then on counts pushes. */
  | {
      readonly kind: 'open'
      readonly path: string
      readonly connections: number
      readonly perConnection: number
    }
  /** Has every stream ask so often, each time when it was answered. */
  | { readonly kind: 'ask'; readonly rounds: number }

export interface FiguresReport {
  /** `pushed`: every stream has got one more response as a push. */
  readonly kind: 'open' | 'ask' | 'pushed'
}

const NAME = 'ROOTCA'
const streams: RawStream[] = []

function report(kind: FiguresReport['kind']): void {
  process.send?.({ kind } satisfies FiguresReport)
}

/** Calls `onResponse` for each response, and reports when each of these streams has got `rounds` of them. */
function expectEach(
  these: readonly RawStream[],
  rounds: number,
  kind: FiguresReport['kind'],
  onResponse: (stream: RawStream, round: number) => void,
): void {
  let missing = these.length * rounds
  for (const stream of these) {
    let round = 0
    stream.onResponse = message => {
      stream.ack(DiscoveryResponse.decode(message), NAME)
      onResponse(stream, ++round)
      if (--missing > 0) return
      report(kind)
      expectEach(streams, 1, 'pushed', () => {})
    }
  }
}

function open(order: Extract<FiguresOrder, { readonly kind: 'open' }>): RawStream[] {
  const opened: RawStream[] = []
  for (let i = 0; i < order.connections; i++) {
    const peer = new RawPeer(order.path)
    for (let j = 0; j < order.perConnection; j++) opened.push(peer.open())
  }
  streams.push(...opened)
  return opened
}

process.on('message', (order: FiguresOrder) => {
  if (order.kind === 'open') {
    const opened = open(order)
    expectEach(opened, 1, 'open', () => {})
    for (const stream of opened) stream.ask(NAME)
    return
  }
  expectEach(streams, order.rounds, 'ask', (stream, round) => {
    if (round < order.rounds) stream.ask(NAME)
  })
  for (const stream of streams) stream.ask(NAME)
})

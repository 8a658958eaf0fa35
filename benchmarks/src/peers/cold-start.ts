/** From the start of `livery run` to the last secret at the last client, the CA on the same two cores. */
import type { Bench, Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, type Sample, type Side } from './rounds.ts'
import { type LoadOptions, reported, sdsload } from './sdsload.ts'
import { LOAD_IDENTITY, startCA, writeLiveryFiles } from './servers.ts'
import { Workdir } from './workdir.ts'

export const LAST_SECRET = 's to the last secret'
const SOCKET = 's to the socket'
const TARGETS = new Map([
  [1_000, 0.9],
  [5_000, 3],
  [10_000, 6],
])

export const coldStartRow: Row = { name: 'cold-start', needs: ['neutralca', 'sdsload'], measure: measureColdStart }

/** How the client asks for so many identities. */
type Asking = (identities: number) => LoadOptions

const onStreamsOfTheirOwn =
  (perConnection: number): Asking =>
  identities => ({ clients: identities, 'per-conn': perConnection, names: LOAD_IDENTITY, san: LOAD_IDENTITY })

/** The client's `{i}` is the same for all names of a stream, so that they are written out, and the SANs are not compared. */
const onOneStream: Asking = identities => ({
  clients: 1,
  names: Array.from({ length: identities }, (_, index) => LOAD_IDENTITY.replace('{i}', `${index}`)).join(','),
})

/** The client starts the agent, waits for its socket, and asks for every identity. */
export async function coldStart(bench: Bench, identities: number, asking = onStreamsOfTheirOwn(1)): Promise<Sample> {
  await using workdir = new Workdir()
  const ca = await startCA(bench, workdir)
  const { config, socket } = await writeLiveryFiles(workdir, ca, identities)
  const { spawn } = await sdsload(bench, workdir, {
    spawn: `./livery run --config ${config}`,
    uds: socket,
    ...asking(identities),
  })
  return {
    [LAST_SECRET]: reported(spawn?.start_to_secrets_ms?.max, 'the time to the last secret') / 1_000,
    [SOCKET]: reported(spawn?.start_to_socket_ms?.max, 'the time to the socket') / 1_000,
  }
}

/** As Envoys come; as a few proxies of many workloads would; and as SPIRE's agent was measured. */
const WAYS = [
  { how: 'a client and connection each', asking: onStreamsOfTheirOwn(1), upTo: 10_000 },
  { how: 'a stream each, 100 a connection', asking: onStreamsOfTheirOwn(100), upTo: 10_000 },
  // More do not fit into an argument of a command.
  { how: 'all on one stream', asking: onOneStream, upTo: 1_000 },
]

async function measureColdStart(bench: Bench): Promise<Comparison[]> {
  const cases = [...TARGETS].flatMap(([identities, seconds]) =>
    WAYS.filter(({ upTo }) => identities <= upTo).map(({ how, asking }) => ({
      name: `${identities.toLocaleString('en-US')} identities, ${how}`,
      identities,
      asking,
      seconds,
    })),
  )
  const sides = cases.map(
    ({ name, identities, asking }): Side => ({ name, measure: () => coldStart(bench, identities, asking) }),
  )
  const measured = await inRounds(bench.rounds, sides, bench.say)
  return cases.map(({ name, seconds }) => ({
    row: 'cold-start',
    work: `cold start, ${name}: start of the agent to the last secret`,
    unit: 's',
    ours: measured(name, LAST_SECRET),
    target: { of: 'ours', is: 'at most', value: seconds },
  }))
}

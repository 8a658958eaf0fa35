/** From the start of `livery run` to the last secret at the last client, the CA on the same two cores. */
import type { Bench, Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { inRounds, type Sample, type Side } from './rounds.ts'
import { reported, sdsload } from './sdsload.ts'
import { LOAD_IDENTITY, startCA, writeLiveryFiles } from './servers.ts'
import { Workshop } from './workshop.ts'

export const LAST_SECRET = 's to the last secret'
const SOCKET = 's to the socket'
const TARGETS = new Map([
  [1_000, 0.9],
  [5_000, 3],
  [10_000, 6],
])

export const coldStartRow: Row = { name: 'cold-start', needs: ['neutralca', 'sdsload'], measure: measureColdStart }

/** The client starts the agent, waits for its socket, and asks for every identity on a stream of its own. */
export async function coldStart(bench: Bench, identities: number, perConnection = 1): Promise<Sample> {
  await using workshop = new Workshop()
  const ca = await startCA(bench, workshop)
  const { config, socket } = await writeLiveryFiles(workshop, ca, identities)
  const { spawn } = await sdsload(bench, workshop, {
    spawn: `./livery run --config ${config}`,
    uds: socket,
    clients: identities,
    'per-conn': perConnection,
    names: LOAD_IDENTITY,
    san: LOAD_IDENTITY,
  })
  return {
    [LAST_SECRET]: reported(spawn?.start_to_secrets_ms?.max, 'the time to the last secret') / 1_000,
    [SOCKET]: reported(spawn?.start_to_socket_ms?.max, 'the time to the socket') / 1_000,
  }
}

/** As Envoys come, and as a single client for the whole node would. */
const CONNECTIONS = [
  { perConnection: 1, how: 'a client and connection each' },
  { perConnection: 100, how: 'a stream each, 100 a connection' },
]

async function measureColdStart(bench: Bench): Promise<Comparison[]> {
  const cases = [...TARGETS].flatMap(([identities, seconds]) =>
    CONNECTIONS.map(({ perConnection, how }) => ({
      name: `${identities.toLocaleString('en-US')} identities, ${how}`,
      identities,
      perConnection,
      seconds,
    })),
  )
  const sides = cases.map(
    ({ name, identities, perConnection }): Side => ({
      name,
      measure: () => coldStart(bench, identities, perConnection),
    }),
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

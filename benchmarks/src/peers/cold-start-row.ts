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

/** The client starts the agent, waits for its socket, and asks for every identity on a connection of its own. */
export async function coldStart(bench: Bench, identities: number): Promise<Sample> {
  await using workshop = new Workshop()
  const ca = await startCA(bench, workshop)
  const { config, socket } = await writeLiveryFiles(workshop, ca, identities)
  const { spawn } = await sdsload(bench, workshop, {
    spawn: `./livery run --config ${config}`,
    uds: socket,
    clients: identities,
    names: LOAD_IDENTITY,
    san: LOAD_IDENTITY,
  })
  return {
    [LAST_SECRET]: reported(spawn?.start_to_secrets_ms?.max, 'the time to the last secret') / 1_000,
    [SOCKET]: reported(spawn?.start_to_socket_ms?.max, 'the time to the socket') / 1_000,
  }
}

async function measureColdStart(bench: Bench): Promise<Comparison[]> {
  const sides = [...TARGETS.keys()].map(
    (identities): Side => ({
      name: nameOf(identities),
      measure: () => coldStart(bench, identities),
    }),
  )
  const measured = await inRounds(bench.rounds, sides, bench.say)
  return [...TARGETS].map(([identities, seconds]) => ({
    row: 'cold-start',
    work: `cold start, ${nameOf(identities)}: start of the agent to the last secret`,
    unit: 's',
    ours: measured(nameOf(identities), LAST_SECRET),
    target: { of: 'ours', is: 'at most', value: seconds },
  }))
}

function nameOf(identities: number): string {
  return `${identities.toLocaleString('en-US')} identities`
}

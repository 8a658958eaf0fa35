/** The plots of a soak, one for each unit: the agent's memory, and the renewals of each second. */
import { linePlot } from '../plot.ts'
import { type Machine, tellMachine } from '../report.ts'
import type { SoakOptions } from './options.ts'
import type { Sample } from './verdict.ts'

type Settings = Pick<SoakOptions, 'identities' | 'ttlMs' | 'connections' | 'attack'>

const MINUTES = { name: 'minutes since every name had a certificate' }

/** SVG by file name, which begins with `name`. */
export function soakPlots(
  name: string,
  machine: Machine,
  settings: Settings,
  samples: readonly Sample[],
): ReadonlyMap<string, string> {
  const conditions = `${describe(settings)}. ${tellMachine(machine)}`
  const over = (value: (sample: Sample) => number) => samples.map(each => [each.second / 60, value(each)] as const)
  return new Map([
    [
      `${name}-memory.svg`,
      linePlot({
        title: 'Memory of the agent in a soak',
        conditions,
        x: MINUTES,
        y: { name: 'MB' },
        series: [
          { name: 'resident memory', points: over(({ residentMB }) => residentMB) },
          { name: 'heap in use', points: over(({ heapMB }) => heapMB), line: 'dashed' },
        ],
      }),
    ],
    [
      `${name}-renewals.svg`,
      linePlot({
        title: 'Renewals in a soak',
        conditions,
        x: MINUTES,
        y: { name: 'renewals a second, mean of 10 s' },
        series: [{ name: 'renewals', points: over(({ renewalsPerSecond }) => renewalsPerSecond) }],
      }),
    ],
  ])
}

function describe({ identities, ttlMs, connections, attack }: Settings): string {
  const count = (value: number) => value.toLocaleString('en-US')
  const streams = `${count(identities)} identities with certificates of ${ttlMs / 1_000} s, a stream each, over ${count(connections)} connections`
  return attack ? `${streams}, while another uid attacks the socket` : streams
}

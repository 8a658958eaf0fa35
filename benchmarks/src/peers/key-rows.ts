/** Keys with CSRs per second of CPU: ours as JavaScript sees them, Istio's GenCSR, and WebCrypto. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { KeyGenerator } from '@livery/core'
import { createKeyGenerator } from '@livery/native-keygen'
import { assertGoodKey } from '../keys.ts'
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { hasCpuFlag } from './proc.ts'
import { pathOf } from './programs.ts'
import { inRounds, type Side } from './rounds.ts'
import { Workshop } from './workshop.ts'

const identity = 'spiffe://cluster.local/ns/default/sa/bench'
const RATE = 'keys per CPU second'
const UNIT = '/s'
const OURS = 'livery'
const ISTIO = 'Istio GenCSR'
const WEBCRYPTO = 'WebCrypto'

/** A sample of ours is at least that many CPU seconds: RSA keys differ in how long they take. */
const CPU_SECONDS = { 'ecdsa-p256': 2, 'rsa-2048': 4 } as const
const BATCH = { 'ecdsa-p256': 1_000, 'rsa-2048': 64 } as const
/** About as long for Istio. */
const ISTIO_BENCHMARK = {
  'ecdsa-p256': { name: 'PeerGenCSRECDSAP256', keys: 8_000 },
  'rsa-2048': { name: 'PeerGenCSRRSA2048', keys: 60 },
} as const
type MeasuredType = keyof typeof BATCH

export const keyRows: readonly Row[] = [
  {
    name: 'ecdsa-istio',
    needs: [],
    against: 'istio-gencsr.test',
    measure: bench => againstIstio(bench, 'ecdsa-istio', 'ecdsa-p256', ours('ecdsa-p256'), 4),
  },
  { name: 'ecdsa-webcrypto', needs: [], measure: againstWebCrypto },
  {
    name: 'rsa-ifma',
    needs: [],
    against: 'istio-gencsr.test',
    obstacle: async () => ((await hasCpuFlag('avx512ifma')) ? undefined : 'this CPU has no AVX-512 IFMA'),
    measure: bench => againstIstio(bench, 'rsa-ifma', 'rsa-2048', ours('rsa-2048'), 8),
  },
  { name: 'rsa-portable', needs: [], against: 'istio-gencsr.test', obstacle: noCargo, measure: measurePortable },
]

const WORK = { 'ecdsa-p256': 'ECDSA P-256 key + CSR per core', 'rsa-2048': 'RSA-2048 key + CSR per core' } as const

async function againstIstio(
  bench: Bench,
  row: string,
  type: MeasuredType,
  side: Side,
  atLeast: number,
): Promise<Comparison[]> {
  await using workshop = new Workshop()
  const istio = ifPresent(bench, 'istio-gencsr.test', () => istioSide(bench, workshop, type))
  if (istio.length > 0) await writeTestData(workshop)
  const measured = await inRounds(bench.rounds, [side, ...istio], bench.say)
  return [
    {
      row,
      work: `${WORK[type]}, ${side.name === OURS ? 'batch from JavaScript' : side.name}`,
      unit: UNIT,
      ours: measured(side.name, RATE),
      ...(istio.length > 0 && { peer: { name: ISTIO, samples: measured(ISTIO, RATE) } }),
      target: { of: 'ratio', is: 'at least', value: atLeast },
    },
  ]
}

async function againstWebCrypto({ rounds, say }: Bench): Promise<Comparison[]> {
  const webCrypto = generatorSide(WEBCRYPTO, createKeyGenerator({ prefer: 'webcrypto' }).generator, 'ecdsa-p256', 64)
  const measured = await inRounds(rounds, [ours('ecdsa-p256'), webCrypto], say)
  return [
    {
      row: 'ecdsa-webcrypto',
      work: `${WORK['ecdsa-p256']}, batch from JavaScript`,
      unit: UNIT,
      ours: measured(OURS, RATE),
      peer: { name: 'WebCrypto + @peculiar/x509', samples: measured(WEBCRYPTO, RATE) },
      target: { of: 'ratio', is: 'at least', value: 40 },
    },
  ]
}

function ours(type: MeasuredType): Side {
  return generatorSide(OURS, createKeyGenerator().generator, type, BATCH[type])
}

/** Batches until enough CPU was used, by whatever thread of this process. */
function generatorSide(name: string, generator: KeyGenerator, type: MeasuredType, size: number): Side {
  const request = { type, identity } as const
  const batch = Array.from({ length: size }, () => request)
  return {
    name,
    measure: async () => {
      await assertGoodKey(await generator.generate(request), request)
      const before = process.cpuUsage()
      let keys = 0
      let cpuSeconds = 0
      while (cpuSeconds < CPU_SECONDS[type]) {
        keys += (await generator.generateBatch(batch)).length
        const { user, system } = process.cpuUsage(before)
        cpuSeconds = (user + system) / 1e6
      }
      return { [RATE]: keys / cpuSeconds }
    },
  }
}

function istioSide(bench: Bench, workshop: Workshop, type: MeasuredType): Side {
  const { name, keys } = ISTIO_BENCHMARK[type]
  const args = ['-test.run=^$', `-test.bench=^Benchmark${name}$`, '-test.cpu=1', `-test.benchtime=${keys}x`]
  return {
    name: ISTIO,
    measure: async () => {
      const program = pathOf(bench.programs, 'istio-gencsr.test')
      const { stdout, cpuSeconds } = await workshop.run(program, args, { cwd: join(workshop.folder, 'work') })
      if (!stdout.includes(`Benchmark${name}`)) throw new Error(`${program} did not run Benchmark${name}: ${stdout}`)
      // It makes one key before the others, to see how long that takes.
      return { [RATE]: (keys + 1) / cpuSeconds }
    },
  }
}

/** What the test program opens when it starts, and does not read for these benchmarks. */
const TEST_DATA = [
  'cert-chain',
  'cert-chain-10y',
  'cert-chain-trailing-line',
  'cert-noroot',
  'cert-verify-fail',
  'key-10y',
  'key-mismatch',
  'key-verify-fail',
  'root-cert-10y',
  'root-verify-fail',
]

async function writeTestData({ folder }: Workshop): Promise<void> {
  await mkdir(join(folder, 'work'))
  await mkdir(join(folder, 'testdata'))
  for (const name of TEST_DATA) await writeFile(join(folder, 'testdata', `${name}.pem`), 'not used\n')
}

/** The path that CPUs without AVX-512 IFMA take can be chosen only below JavaScript: an example of the Rust package does. */
async function measurePortable(bench: Bench): Promise<Comparison[]> {
  await using workshop = new Workshop()
  const cwd = fileURLToPath(new URL('../../..', import.meta.url))
  const cargo = ['run', '--quiet', '--release', '--package', 'livery-native-keygen', '--example', 'rsa_rate', '--']
  bench.say('building the example rsa_rate')
  await workshop.run('cargo', [...cargo, 'none'], { cwd })
  const seconds = String(CPU_SECONDS['rsa-2048'])
  const portable: Side = {
    name: 'portable path, Rust',
    measure: async () => {
      const { stdout } = await workshop.run('cargo', [...cargo, 'portable', 'rsa-2048', seconds], { cwd })
      const rate = /: ([\d.]+) keys and CSRs a second/.exec(stdout)?.[1]
      if (rate === undefined) throw new Error(`rsa_rate told no rate: ${stdout}`)
      return { [RATE]: Number(rate) }
    },
  }
  return againstIstio(bench, 'rsa-portable', 'rsa-2048', portable, 1.3)
}

async function noCargo(): Promise<string | undefined> {
  await using workshop = new Workshop()
  try {
    await workshop.run('cargo', ['--version'])
    return undefined
  } catch (error) {
    return `cargo, which builds the portable path, does not run here: ${error instanceof Error ? error.message : error}`
  }
}

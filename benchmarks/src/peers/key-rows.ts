/** Keys with CSRs per second of CPU: ours as JavaScript sees them, Istio's GenCSR, and WebCrypto. */
import type { KeyGenerator } from '@livery/core/plugin'
import { createKeyGenerator, type RsaKeys } from '@livery/native-keygen'
import { assertGoodKey } from '../keys.ts'
import { type Bench, ifPresent, type Row } from './bench.ts'
import type { Comparison } from './comparison.ts'
import { cpuFlags } from './proc.ts'
import { pathOf } from './programs.ts'
import { inRounds, type Side } from './rounds.ts'
import { Workdir } from './workdir.ts'

const identity = 'spiffe://cluster.local/ns/default/sa/bench'
const RATE = 'keys per CPU second'
const UNIT = '/s'
const OURS = 'livery'
const ISTIO = 'Istio GenCSR'
const WEBCRYPTO = 'WebCrypto'

/** Our samples take at least this many CPU seconds: RSA keys differ in how long they take. */
const CPU_SECONDS = { 'ecdsa-p256': 2, 'rsa-2048': 4 } as const
const BATCH = { 'ecdsa-p256': 1_000, 'rsa-2048': 64 } as const
/** The benchmark of Istio takes about as long. */
const ISTIO_BENCHMARK = {
  'ecdsa-p256': { name: 'PeerGenCSRECDSAP256', keys: 8_000 },
  'rsa-2048': { name: 'PeerGenCSRRSA2048', keys: 60 },
} as const
type MeasuredType = keyof typeof BATCH

export const keyRows: readonly Row[] = [
  {
    name: 'ecdsa-istio',
    needs: [],
    against: ['istio-gencsr.test'],
    measure: bench =>
      againstIstio(bench, {
        row: 'ecdsa-istio',
        type: 'ecdsa-p256',
        how: BATCHES,
        side: ours('ecdsa-p256'),
        atLeast: 4,
      }),
  },
  { name: 'ecdsa-webcrypto', needs: [], measure: againstWebCrypto },
  {
    name: 'rsa-simd',
    needs: [],
    against: ['istio-gencsr.test'],
    obstacle: noSimd,
    measure: bench => againstIstio(bench, { row: 'rsa-simd', ...rsaSide('simd'), atLeast: simdBound() }),
  },
  {
    name: 'rsa-search',
    needs: [],
    against: ['istio-gencsr.test'],
    obstacle: noAddon,
    measure: bench => againstIstio(bench, { row: 'rsa-search', ...rsaSide('search'), atLeast: 1.3 }),
  },
  { name: 'rsa-library', needs: [], obstacle: noIfma, measure: againstLibrary },
]

const BATCHES = 'batch from JavaScript'
const WORK = { 'ecdsa-p256': 'ECDSA P-256 key + CSR per core', 'rsa-2048': 'RSA-2048 key + CSR per core' } as const

/** One row against Istio's GenCSR. */
interface IstioRow {
  readonly row: string
  readonly type: MeasuredType
  /** The path through our code, and the way it is called. */
  readonly how: string
  readonly side: Side
  /** The least multiple of Istio's rate. */
  readonly atLeast: number
}

async function againstIstio(bench: Bench, { row, type, how, side, atLeast }: IstioRow): Promise<Comparison[]> {
  await using workdir = new Workdir()
  const istio = ifPresent(bench, 'istio-gencsr.test', () => istioSide(bench, workdir, type))
  const measured = await inRounds(bench.rounds, [side, ...istio], bench.say)
  return [
    {
      row,
      work: `${WORK[type]}, ${how}`,
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
      work: `${WORK['ecdsa-p256']}, ${BATCHES}`,
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

/** Runs batches until they have used enough CPU, on any thread of this process. */
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

function istioSide(bench: Bench, workdir: Workdir, type: MeasuredType): Side {
  const { name, keys } = ISTIO_BENCHMARK[type]
  const args = ['-test.run=^$', `-test.bench=^Benchmark${name}$`, '-test.cpu=1', `-test.benchtime=${keys}x`]
  return {
    name: ISTIO,
    measure: async () => {
      const program = pathOf(bench.programs, 'istio-gencsr.test')
      const { stdout, cpuSeconds } = await workdir.run(program, args)
      if (!stdout.includes(`Benchmark${name}`)) throw new Error(`${program} did not run Benchmark${name}: ${stdout}`)
      // The benchmark makes one key before the others, to time it.
      return { [RATE]: (keys + 1) / cpuSeconds }
    },
  }
}

/** The rows that `docs/understand/rsa-keys.md` compares: our default and aws-lc's own generator, in the same process. */
async function againstLibrary({ rounds, say }: Bench): Promise<Comparison[]> {
  const [simd, library] = [rsaSide('simd'), rsaSide('library')]
  const measured = await inRounds(rounds, [simd.side, library.side], say)
  return [
    {
      row: 'rsa-library',
      work: `${WORK['rsa-2048']}, ${simd.how}`,
      unit: UNIT,
      ours: measured(simd.side.name, RATE),
      peer: { name: "aws-lc's own generator, rsaKeys: library", samples: measured(library.side.name, RATE) },
      target: { of: 'ratio', is: 'at least', value: 8 },
    },
  ]
}

function rsaSide(rsaKeys: RsaKeys): Pick<IstioRow, 'type' | 'how' | 'side'> {
  const { generator } = createKeyGenerator({ rsaKeys })
  const how = `rsaKeys: ${rsaKeys}, ${BATCHES}`
  return { type: 'rsa-2048', how, side: generatorSide(`${OURS} ${rsaKeys}`, generator, 'rsa-2048', BATCH['rsa-2048']) }
}

async function noAddon(): Promise<string | undefined> {
  return createKeyGenerator().reason
}

async function noSimd(): Promise<string | undefined> {
  const { reason, rsaReason } = createKeyGenerator({ rsaKeys: 'simd' })
  return reason ?? rsaReason
}

async function noIfma(): Promise<string | undefined> {
  return (await noAddon()) ?? (hasIfma() ? undefined : 'this CPU has no AVX-512 IFMA')
}

function simdBound(): number {
  return hasIfma() ? 8 : 6
}

function hasIfma(): boolean {
  return cpuFlags(['avx512ifma']).length > 0
}

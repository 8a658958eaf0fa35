/** Every case of the kit, in the order in which they run. */
import type { BenchCase, LiveCase } from '../kit/conformance-case.ts'
import { answerCases } from './answers.ts'
import { cancellationCases, inFlightCases } from './cancellation.ts'
import { closeCases, closingCases } from './close.ts'
import { contractCases, rootSignedCases, slowContractCases } from './contract.ts'
import { errorCases } from './errors.ts'
import { memoryCases } from './memory.ts'
import { nameCases } from './names.ts'
import { inFlightTogetherCases, parallelCases } from './parallel.ts'
import { rootCases, rotationCases } from './roots.ts'
import { skewCases } from './skew.ts'
import { ticketCases } from './tickets.ts'
import { tokenCases } from './token.ts'
import { limitedTtlCases, ttlCases } from './ttl.ts'

/** Cases that need no switches. The last one closes the client. */
export const LIVE_CASES: readonly LiveCase[] = [
  ...contractCases,
  ...ttlCases,
  ...cancellationCases,
  ...parallelCases,
  ...rootCases,
  ...closeCases,
]

export const BENCH_CASES: readonly BenchCase[] = [
  ...contractCases,
  ...rootSignedCases,
  ...slowContractCases,
  ...nameCases,
  ...ttlCases,
  ...limitedTtlCases,
  ...errorCases,
  ...answerCases,
  ...cancellationCases,
  ...inFlightCases,
  ...parallelCases,
  ...inFlightTogetherCases,
  ...tokenCases,
  ...rootCases,
  ...rotationCases,
  ...skewCases,
  ...memoryCases,
  ...ticketCases,
  ...closeCases,
  ...closingCases,
]

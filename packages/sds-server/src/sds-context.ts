/** The state and settings shared by all sockets of one server. */
import type { GateContext } from './access/connection-gate.ts'
import type { RefusalAnswers } from './access/refusal-answers.ts'
import type { OpeningQueue } from './budget/opening-queue.ts'
import type { ServiceContext } from './grpc/call-context.ts'
import type { SessionTimes } from './grpc/sessions.ts'
import type { ResourceNames } from './protocol/resource-name.ts'
import type { AcceptWaiting } from './socket/accept-connections.ts'
import type { WorkloadContext } from './workload-api/workload-service.ts'

export interface SdsContext extends Omit<ServiceContext & WorkloadContext, 'maxNames'>, GateContext, SessionTimes {
  readonly names: ResourceNames
  readonly openings: OpeningQueue
  readonly refusalAnswers: RefusalAnswers
  readonly acceptWaiting?: AcceptWaiting | undefined
  /** Whether a socket that opens takes its path from another process that listens there. */
  takeover: boolean
  /** Whether a successor opens the sockets that are new. */
  isHandover: boolean
  readonly requestTimeoutMs: number
}

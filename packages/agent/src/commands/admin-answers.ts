/** The forms of an agent's answers, as far as the commands read them: another program may listen at its address. */
import * as v from 'valibot'
import { READINESS_MODES } from '../diagnosis/problem.ts'

/** The latest time that a Date can hold, some 270,000 years from now (ECMA-262). */
const MAX_TIME_MS = 8.64e15
/** Decimal; RFC 5280 allows 20 octets. */
const serialNumber = v.pipe(v.string(), v.regex(/^\d{1,64}$/))
const rfc3339 = v.pipe(
  v.string(),
  v.check(text => !Number.isNaN(Date.parse(text))),
)
const ms = v.pipe(v.number(), v.minValue(-MAX_TIME_MS), v.maxValue(MAX_TIME_MS))
const count = v.pipe(v.number(), v.safeInteger())
const text = v.string()
const optionalText = v.optional(text)

const certificate = v.object({ pem: text, serialNumber, expirationTime: rfc3339 })
const failure = v.object({ code: text, text, since: rfc3339, nextTry: v.optional(rfc3339) })

/** The answer of `/config_dump`. */
export const configDumpForm = v.object({
  certificates: v.array(
    v.object({
      identity: text,
      state: text,
      certChain: v.array(certificate),
      rootCerts: v.array(certificate),
      renewAt: v.optional(rfc3339),
      lastsUntil: v.optional(rfc3339),
      lastFailure: v.optional(failure),
      warning: optionalText,
      problem: optionalText,
    }),
  ),
  files: v.optional(v.array(v.object({ name: text, state: text, expirationTime: v.optional(rfc3339) }))),
})

/** The answer of `/problems`. */
export const problemsForm = v.object({
  now: ms,
  openFiles: v.optional(count),
  hasAddon: v.optional(v.boolean()),
  problems: v.array(
    v.object({
      code: text,
      severity: v.picklist(['critical', 'warning', 'pending']),
      what: text,
      ends: v.optional(ms),
      reason: text,
      remedy: text,
      commands: v.array(text),
      unready: v.optional(v.picklist(READINESS_MODES)),
      affected: v.array(v.object({ count, listed: v.array(v.object({ name: text })) })),
    }),
  ),
})

/** The answer of `/trust`. */
export const trustForm = v.object({
  now: ms,
  trustDomains: v.array(
    v.object({
      trustDomain: text,
      phase: text,
      roots: v.array(
        v.object({
          fingerprint: text,
          phase: text,
          isListed: v.boolean(),
          leaves: count,
          waiting: count,
          waitsFor: v.array(v.object({ client: text, reason: optionalText })),
          learnedAt: ms,
          settlesAt: ms,
          leavesAt: v.optional(ms),
          notAfter: ms,
        }),
      ),
    }),
  ),
})

const load = { connections: count, streams: count, names: count }
const subscription = v.object({
  name: text,
  secret: optionalText,
  access: text,
  reason: optionalText,
  current: optionalText,
  sent: optionalText,
  accepted: optionalText,
  rejected: optionalText,
})

/** The answer of `/streams`. */
export const streamsForm = v.object({
  now: rfc3339,
  streams: v.array(
    v.pipe(
      v.object({
        socket: text,
        method: text,
        pid: v.optional(count),
        uid: v.optional(count),
        subject: optionalText,
        pod: optionalText,
        node: text,
        names: count,
        subscriptions: v.array(subscription),
        since: rfc3339,
      }),
      v.check(({ pid, uid }) => (pid === undefined) === (uid === undefined)),
    ),
  ),
  notListed: count,
  sockets: v.array(v.object({ path: text, state: text, ...load })),
  callers: v.array(v.object({ caller: text, pod: optionalText, bytes: count, ...load })),
})

/** The answer of `/explain`. */
export const explanationForm = v.object({
  name: text,
  now: ms,
  state: optionalText,
  entries: v.array(
    v.object({
      time: ms,
      text,
      count: v.optional(count),
      event: v.variant('kind', [
        v.object({ kind: v.literal('ca-error'), code: text, message: text }),
        v.object({ kind: v.pipe(v.string(), v.notValue('ca-error')) }),
      ]),
    }),
  ),
})

/** The answer of the socket of `livery ca`. */
export const rootsForm = v.array(v.object({ id: text, signing: v.boolean(), notAfter: ms }))

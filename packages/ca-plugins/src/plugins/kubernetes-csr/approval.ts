/** Waits for a request's certificate: a look, then a watch, for as long as it takes. */
import { CAError, type Clock, sleep } from '@livery/core/plugin'
import { scrub } from '../../answers/scrub.ts'
import type { Caller } from '../../kubernetes-api/api-connection.ts'
import { isAboutLifetime } from '../../kubernetes-api/api-errors.ts'
import { LAST_DELAY_MS, reopenDelay } from '../../transport/reopen-delay.ts'
import type { SigningRequest } from './signing-request.ts'
import type { SigningRequestApi } from './signing-request-api.ts'

/** How long a request may wait before it is reported as overdue. */
const APPROVAL_TIMEOUT_MS = 15 * 60_000

interface ApprovalOptions {
  readonly api: SigningRequestApi
  readonly clock: Clock
  /** A number in [0, 1). */
  readonly random: () => number
  /** Follows the request's name in messages: `for spiffe://…`. */
  readonly whose: string
}

/** A request that cannot bring a certificate any more: its ticket is useless. */
export class RequestIsOver extends CAError {}

/**
 * The certificates (PEM) of `request`, which has waited since `since`. Rejects with {@link RequestIsOver} if there will be
 * none, with a `CAError` `timeout` if nobody signs it in time, with the error of a failed call, or with the
 * signal's reason.
 */
export async function certificatesOf(
  options: ApprovalOptions,
  request: SigningRequest,
  since: number,
  caller: Caller,
): Promise<string> {
  const { clock, random } = options
  let latest = request
  let ends = 0
  const overdue = new AbortController()
  const onOverdue = () => overdue.abort(overdueError(options, latest))
  // An overdue request is looked at, but not waited for.
  using _timer = clock.at(Math.max(since + APPROVAL_TIMEOUT_MS, clock.now()), onOverdue)
  const until = { ...caller, signal: AbortSignal.any([caller.signal, overdue.signal]) }
  for (;;) {
    const certificates = settled(latest, options)
    if (certificates !== undefined) return certificates
    if (clock.now() >= since + APPROVAL_TIMEOUT_MS) onOverdue()
    until.signal.throwIfAborted()
    const begun = clock.now()
    for await (const change of options.api.watch(latest, options.whose, until)) {
      latest = sameRequest(change.kind === 'deleted' ? undefined : change.request, latest, options)
      if (settled(latest, options) !== undefined) break
    }
    if (settled(latest, options) === undefined) {
      // Some proxies end each watch at once.
      if (clock.now() - begun >= LAST_DELAY_MS) ends = 0
      await sleep(clock, reopenDelay(ends++, random()), until.signal)
      latest = sameRequest(await options.api.find(latest.name, options.whose, until), latest, options)
    }
  }
}

/** `found`, if it is still the one that was asked for. Throws {@link RequestIsOver} if it was deleted or replaced. */
export function sameRequest(
  found: SigningRequest | undefined,
  { name, uid }: Pick<SigningRequest, 'name' | 'uid'>,
  { whose }: Pick<ApprovalOptions, 'whose'>,
): SigningRequest {
  if (!found)
    throw new RequestIsOver(
      'unavailable',
      `The request ${name} ${whose} was deleted before it was signed. A new one is made.`,
    )
  if (found.uid !== uid)
    throw new RequestIsOver(
      'bad-response',
      `The request ${name} ${whose} was deleted, and another one made by that name (${scrub(found.uid, [])} in place of ${uid}). See who makes requests by that name; a new one is made under another.`,
    )
  return found
}

/** The certificates, or `undefined` while they may still come. Throws {@link RequestIsOver} if they will not. */
function settled({ name, signerName, outcome }: SigningRequest, { whose }: ApprovalOptions): string | undefined {
  switch (outcome.kind) {
    case 'pending':
    case 'approved':
      return undefined
    case 'issued':
      return outcome.certificates
    case 'denied':
      throw new RequestIsOver(
        'denied',
        `The request ${name} ${whose} was denied: ${scrub(outcome.reason, []) || 'no reason is given'}. Ask the approver of requests to ${signerName}; a new one is made later.`,
      )
    case 'failed': {
      const reason = scrub(outcome.reason, [])
      const code = isAboutLifetime(reason) ? 'ttl-too-long' : 'invalid-csr'
      throw new RequestIsOver(
        code,
        `${signerName} did not sign the request ${name} ${whose}: ${reason || 'no reason is given'}. Set ${code === 'ttl-too-long' ? 'ttl' : 'usages and keyType'} to what it signs; a new request is made later.`,
      )
    }
  }
}

function overdueError({ whose }: ApprovalOptions, { name, signerName, outcome }: SigningRequest): CAError {
  const [what, remedy] =
    outcome.kind === 'approved'
      ? ['is approved, but was not signed', `See that the controller of ${signerName} runs`]
      : [
          'was neither approved nor denied',
          `Approve it (kubectl certificate approve ${name}), or see that the approver for ${signerName} runs`,
        ]
  return new CAError(
    'timeout',
    `The request ${name} ${whose} ${what} within ${APPROVAL_TIMEOUT_MS / 1000} s. ${remedy}; it is looked at again.`,
  )
}

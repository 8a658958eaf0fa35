/** Certificates that somebody has to approve: a ticket brings back the request, also after a restart. */
import assert from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { type CACapabilities, type CAClient, CAError, type IssuedCertificate } from '@livery/core/plugin'
import type { Bench, BenchCase } from '../kit/conformance-case.ts'
import { expectCAError, expectOwn } from '../kit/expectations.ts'
import { close, inTime, rejection, started } from '../kit/in-time.ts'
import { createKeyMaterial, type KeyMaterial } from '../kit/key-material.ts'
import { firstOf, type KitRequest, type KitRequestOptions, KitTicket, kitRequest } from '../kit/kit-request.ts'

const group = 'tickets'

function unlessAsynchronous({ asynchronous = false }: CACapabilities): string | undefined {
  return asynchronous ? undefined : 'certificates are issued at once'
}

/** Leaves a pending request behind, as a process that ends does. */
async function submitAndStop(on: Bench, material: KeyMaterial, ticket: KitTicket): Promise<void> {
  on.ca.fault = { kind: 'pending' }
  const controller = new AbortController()
  const request = await kitRequest(on, { material, ticket, signal: controller.signal })
  const asked = started(rejection(on.client.issue(request), on.patienceMs, 'issue() of a pending request'))
  await inTime(Promise.race([ticket.noted(), asked]), on.patienceMs, 'the note on the ticket')
  controller.abort(new Error('the process ends'))
  await asked
  await close(on.client, on.patienceMs)
}

/** Issues as core does: a plugin may wait for the decision, or report that there is none yet and be asked again. */
async function issueUntilDecided(client: CAClient, request: KitRequest): Promise<IssuedCertificate> {
  while (true) {
    try {
      return await client.issue(request)
    } catch (error) {
      if (!(error instanceof CAError) || !error.retryable) throw error
      await setImmediate()
      request.signal.throwIfAborted()
    }
  }
}

/** Gives up with the case, so that nothing keeps asking after it. */
async function decided(on: Bench, client: CAClient, options: KitRequestOptions): Promise<IssuedCertificate> {
  const controller = new AbortController()
  const request = await kitRequest(on, { ...options, signal: controller.signal })
  try {
    const issued = await inTime(issueUntilDecided(client, request), on.patienceMs, 'issue() of a request with a ticket')
    // The plugin may find the certificate by its ticket alone, and need no CSR.
    await request.csr()
    expectOwn(on, request, issued)
    return issued
  } finally {
    controller.abort(new Error('the case is over'))
  }
}

export const ticketCases: readonly BenchCase[] = [
  {
    group,
    name: 'a request that is approved while it waits is answered',
    skip: unlessAsynchronous,
    async run(on) {
      on.ca.fault = { kind: 'pending' }
      const ticket = new KitTicket()
      const answered = started(decided(on, on.client, { ticket }))
      await Promise.race([ticket.noted(), answered])
      on.ca.decide('approve')
      await answered
      assert.equal(on.ca.requests, 1, `${on.ca.requests} requests were made at the CA for one certificate`)
    },
  },
  {
    group,
    name: 'a pending request is noted on its ticket and taken up again after a restart, not made again',
    skip: unlessAsynchronous,
    async run(on) {
      const material = await createKeyMaterial(firstOf(on.identities), on.keyType)
      const ticket = new KitTicket()
      await submitAndStop(on, material, ticket)
      assert.ok(ticket.stored, 'nothing is noted on the ticket')
      assert.ok(!ticket.stored.includes('PRIVATE KEY'), 'the ticket holds a private key')
      const client = await on.reopen()
      on.ca.decide('approve')
      await decided(on, client, { material, ticket })
      assert.equal(on.ca.requests, 1, `${on.ca.requests} requests were made at the CA for one certificate`)
    },
  },
  {
    group,
    name: 'a denied request is "denied", and does not stand in the way of the next one',
    needs: ['denied'],
    skip: unlessAsynchronous,
    async run(on) {
      const material = await createKeyMaterial(firstOf(on.identities), on.keyType)
      const ticket = new KitTicket()
      await submitAndStop(on, material, ticket)
      const client = await on.reopen()
      on.ca.decide('deny')
      const reason = await rejection(decided(on, client, { material, ticket }), on.patienceMs, 'issue() when denied')
      expectCAError(reason, ['denied'], 'issue() when denied')
      on.ca.fault = { kind: 'none' }
      await decided(on, client, { material, ticket })
    },
  },
]

/** Answers that cannot be used, and answers that can be corrected. */
import assert from 'node:assert/strict'
import { CAError, type CAErrorCode, type IssuedCertificate } from '@livery/core/plugin'
import type { Bench, BenchCase } from '../kit/conformance-case.ts'
import { expectCAError, expectNoRoot, expectOrder, issue, issueBadly, verifyAsCore } from '../kit/expectations.ts'
import { ENDLESS_BYTES } from '../kit/fake-ca.ts'
import type { CAFault } from '../kit/fake-ca-fault.ts'
import { inTime } from '../kit/in-time.ts'
import { type KitRequest, kitRequest } from '../kit/kit-request.ts'

const group = 'answers'

type Named = CAFault & { readonly kind: NonNullable<BenchCase['needs']>[number] }

/** The answer to a request while the CA does wrong, or the plugin's error if it refused on its own. */
async function askWith(
  on: Bench,
  fault: CAFault,
): Promise<{ readonly request: KitRequest; readonly issued?: IssuedCertificate }> {
  on.ca.fault = fault
  const request = await kitRequest(on)
  try {
    return { request, issued: await inTime(on.client.issue(request), on.patienceMs, 'issue()') }
  } catch (error) {
    expectCAError(error, ['bad-response'], 'issue()')
    return { request }
  }
}

function unusable(fault: Named, codes: readonly CAErrorCode[]): BenchCase {
  return {
    group,
    name: `${fault.kind}: rejected as ${codes.join(' or ')}, and the next call works`,
    needs: [fault.kind],
    async run(on) {
      on.ca.fault = fault
      await issueBadly(on, codes)
      on.ca.fault = { kind: 'none' }
      await issue(on)
    },
  }
}

/** Core judges the content of a certificate: a plugin passes it on unchanged, or refuses as core would. */
function forCoreToRefuse(name: string, fault: (on: Bench) => Named, kind: Named['kind']): BenchCase {
  return {
    group,
    name: `${kind}: ${name} is passed on for core to refuse, or rejected as bad-response`,
    needs: [kind],
    async run(on) {
      await issue(on)
      const { request, issued } = await askWith(on, fault(on))
      if (!issued) return
      await assert.rejects(
        verifyAsCore(on, request, issued),
        error => error instanceof CAError,
        'what the plugin answered is not what the CA did, and core would use it',
      )
    },
  }
}

/** The contract requires a form that the CA's answer does not have. */
function toPutRight(name: string, fault: Named): BenchCase {
  return {
    group,
    name: `${fault.kind}: ${name}`,
    needs: [fault.kind],
    async run(on) {
      const { request, issued } = await askWith(on, fault)
      if (!issued) return
      expectNoRoot(issued.chain)
      const refused = await verifyAsCore(on, request, issued).then(
        () => false,
        () => true,
      )
      if (!refused) expectOrder(issued)
    },
  }
}

const wrongSan = (on: Bench): Named => ({
  kind: 'wrong-san',
  identity: `spiffe://${on.ca.trustDomain}/ns/conformance/sa/somebody-else`,
})

export const answerCases: readonly BenchCase[] = [
  unusable({ kind: 'garbage' }, ['bad-response']),
  unusable({ kind: 'truncated' }, ['bad-response', 'unavailable']),
  unusable({ kind: 'empty-chain' }, ['bad-response']),
  {
    group,
    name: 'endless: refused once it is too long, not read to its end, and the next call works',
    needs: ['endless'],
    async run(on) {
      on.ca.fault = { kind: 'endless' }
      await issueBadly(on, ['bad-response', 'unavailable'])
      const { endlessBytes } = on.ca
      assert.ok(endlessBytes > 0, 'the server sent none of `pieces`: send them, or say in `without` why not')
      assert.ok(endlessBytes < ENDLESS_BYTES, `${endlessBytes} bytes of an answer were read: set a limit of bytes`)
      on.ca.fault = { kind: 'none' }
      await issue(on)
    },
  },
  forCoreToRefuse('a certificate for another identity', wrongSan, 'wrong-san'),
  forCoreToRefuse('a certificate for another key', () => ({ kind: 'wrong-key' }), 'wrong-key'),
  forCoreToRefuse('a certificate that ended yesterday', () => ({ kind: 'expired' }), 'expired'),
  forCoreToRefuse('a certificate that begins tomorrow', () => ({ kind: 'not-yet-valid' }), 'not-yet-valid'),
  toPutRight('the order is put right, left for core to refuse, or rejected as bad-response', { kind: 'reversed' }),
  toPutRight('the root is left out, or the answer rejected as bad-response', { kind: 'root-in-chain' }),
  toPutRight('the leaf alone is left for core to judge, or rejected as bad-response', {
    kind: 'missing-intermediates',
  }),
  {
    group,
    name: 'backdated: a certificate that began an hour ago is passed on',
    needs: ['backdated'],
    async run(on) {
      on.ca.fault = { kind: 'backdated' }
      await issue(on)
    },
  },
]

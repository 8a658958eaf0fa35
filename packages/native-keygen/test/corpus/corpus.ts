/** Answers of CAs, good and each with one fault: every verifier judges them in the same way. */
import { algorithmCases } from './algorithm-cases.ts'
import type { Case } from './case.ts'
import { identityCases } from './identity-cases.ts'
import { issuerRuleCases } from './issuer-rule-cases.ts'
import { keyAndDateCases } from './key-and-date-cases.ts'
import { nameConstraintCases } from './name-constraint-cases.ts'
import { pathCases } from './path-cases.ts'
import { usageAndFormCases } from './usage-and-form-cases.ts'

export function corpus(): Record<string, Case> {
  return {
    ...identityCases(),
    ...keyAndDateCases(),
    ...usageAndFormCases(),
    ...pathCases(),
    ...issuerRuleCases(),
    ...nameConstraintCases(),
    ...algorithmCases(),
  }
}

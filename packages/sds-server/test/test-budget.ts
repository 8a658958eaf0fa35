/** Budgets of a caller with the limits that a test gives, the defaults of a socket for the others. */
import { FakeClock } from '@livery/core/testing'
import { CallerAccount, CallerAccounts } from '../src/budget/caller-account.ts'
import { CallerBudget, type PerCallerLimits } from '../src/budget/caller-budget.ts'
import { SharedLimit } from '../src/budget/shared-limit.ts'

const LIMITS: PerCallerLimits = {
  connections: 10_000,
  streams: 20_000,
  names: 50_000,
  requestsPerSecond: 10_000,
  bytes: 536_870_912,
  identities: 10_000,
  identitiesPerMinute: 1_000,
}

export function testAccounts(): CallerAccounts {
  return new CallerAccounts({ connections: 20_000, streams: 40_000, bytes: 2 ** 30 })
}

export function testBudget(
  limits: Partial<PerCallerLimits> = {},
  accounts = testAccounts(),
  account = new CallerAccount('uid 1'),
): CallerBudget {
  const socket = {
    connections: new SharedLimit(20_000),
    streams: new SharedLimit(40_000),
    healthCalls: new SharedLimit(2_000),
  }
  return new CallerBudget(account, {
    limits: { ...LIMITS, ...limits },
    socket,
    accounts,
    clock: new FakeClock(),
    onIdentityRefused: () => {},
    onSlowed: () => {},
    onIdle: () => {},
  })
}

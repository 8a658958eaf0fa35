/** Budgets of a caller with the limits that a test gives, the defaults of a socket for the others. */
import { FakeClock } from '@livery/core/testing'
import { CallerAccount, CallerAccounts } from '../src/budget/caller-account.ts'
import { CallerBudget, type PerCallerLimits } from '../src/budget/caller-budget.ts'
import { SharedLimit } from '../src/budget/shared-limit.ts'
import { DEFAULT_LIMITS } from '../src/budget/socket-limits.ts'

export function testAccounts(): CallerAccounts {
  return new CallerAccounts({ ...DEFAULT_LIMITS, bytes: 2 ** 30 })
}

export function testBudget(
  limits: Partial<PerCallerLimits> = {},
  accounts = testAccounts(),
  account = new CallerAccount('uid 1'),
): CallerBudget {
  const socket = {
    connections: new SharedLimit(DEFAULT_LIMITS.connections),
    streams: new SharedLimit(DEFAULT_LIMITS.streams),
    healthCalls: new SharedLimit(2_000),
  }
  return new CallerBudget(account, {
    limits: { ...DEFAULT_LIMITS.perCaller, ...limits },
    socket,
    accounts,
    clock: new FakeClock(),
    onNoRoom: () => {},
    onSlowed: () => {},
    onIdle: () => {},
  })
}

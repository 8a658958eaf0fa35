/** The text of `livery doctor`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ProblemList } from '../admin/routes.ts'
import { LESS_STRICT } from '../life/process-setup.ts'
import { addonFindings } from './addon-check.ts'
import { describeFindings } from './doctor.ts'
import { ok, skipped, warning, wrong } from './finding.ts'
import { agentFindings } from './running-agent.ts'

test('good sockets are one row where there are many, and the wrong one keeps its own', () => {
  const sockets = Array.from({ length: 40 }, (_, at) => ok('socket', `/run/${at}.sock`, 'it answers'))
  const closed = wrong('socket', '/run/db.sock', 'nobody listens on it', 'Restart the agent')
  assert.deepEqual(describeFindings([ok('agent', 'livery run', 'ready'), ...sockets, closed]).split('\n'), [
    'WRONG  socket  /run/db.sock',
    '  nobody listens on it',
    '  → Restart the agent',
    'ok     agent   livery run',
    '  ready',
    'ok     socket  40 of them',
    '  nothing is wrong with them (--json lists each)',
    '',
    '1 thing is wrong.',
    '',
  ])
})

test('a few good sockets have a row each', () => {
  const sockets = ['a', 'b', 'c'].map(name => ok('socket', `/run/${name}.sock`, 'it answers'))
  assert.equal(describeFindings(sockets).match(/it answers/g)?.length, 3)
})

test('the worst is first, and many findings with one cause are one row', () => {
  const failing = ['//a', '//b', '//c', '//d'].map(name =>
    wrong('agent', name, `no certificate for ${name}: denied`, `see ${name}`),
  )
  const rest = [skipped('clock', 'ca', 'not asked'), ok('roots', 'r', 'good'), warning('disk', 'd', 'low', 'make room')]
  const text = describeFindings([...rest, ...failing])
  assert.deepEqual(text.match(/^(?:WRONG|warning|skipped|ok)\b/gm), ['WRONG', 'warning', 'skipped', 'ok'])
  assert.match(
    text,
    /^WRONG +agent +\/\/a and 3 others\n {2}the same of all 4 .*no certificate for \/\/a: denied\n {2}→ see \/\/a$/m,
  )
})

const AGENT: ProblemList = {
  now: 0,
  problems: [
    {
      code: 'unauthenticated',
      severity: 'critical',
      what: '6 identities have no certificate (unauthenticated)',
      reason: 'refused',
      remedy: 'Look at the token.',
      commands: ['livery doctor', 'livery certs --failing'],
      unready: 'default',
      affected: [{ effect: 'missing', unready: 'default', count: 6, listed: [] }],
    },
  ],
  openFiles: 20_000,
}

test("the agent's problem is one finding, and says so where it follows from the CA's refusal of this command", () => {
  for (const [code, follows] of [
    ['unauthenticated', true],
    ['timeout', false],
    [undefined, false],
  ] as const) {
    const [finding, ...others] = agentFindings(AGENT, code)
    assert.deepEqual(
      [finding?.text, others.map(({ state }) => state)],
      ['6 identities have no certificate (unauthenticated): refused', ['ok']],
    )
    const remedy = follows ? 'This follows from the finding "ca": correct that one.' : 'Look at the token.'
    assert.equal(finding?.remedy, `${remedy} Run: livery certs --failing`)
  }
})

test('an agent that started before the addon was there is to be restarted', { skip: LESS_STRICT }, () => {
  assert.deepEqual(addonFindings({ hasAddon: true }), [])
  assert.equal(addonFindings({ hasAddon: false })[0]?.remedy, 'Restart the agent')
})

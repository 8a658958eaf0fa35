/** The text of `livery doctor`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeFindings } from './doctor.ts'
import { ok, wrong } from './finding.ts'

test('good sockets are one row where there are many, and the wrong one keeps its own', () => {
  const sockets = Array.from({ length: 40 }, (_, at) => ok('socket', `/run/${at}.sock`, 'it answers'))
  const closed = wrong('socket', '/run/db.sock', 'nobody listens on it', 'Restart the agent')
  assert.deepEqual(describeFindings([ok('agent', 'livery run', 'ready'), ...sockets, closed]).split('\n'), [
    'ok     agent   livery run',
    '  ready',
    'ok     socket  40 of them',
    '  nothing is wrong with them (--json lists each)',
    'WRONG  socket  /run/db.sock',
    '  nobody listens on it',
    '  → Restart the agent',
    '',
    '1 thing is wrong.',
    '',
  ])
})

test('a few good sockets have a row each', () => {
  const sockets = ['a', 'b', 'c'].map(name => ok('socket', `/run/${name}.sock`, 'it answers'))
  assert.equal(describeFindings(sockets).match(/it answers/g)?.length, 3)
})

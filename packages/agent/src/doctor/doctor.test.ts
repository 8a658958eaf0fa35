/** The text of `livery doctor`. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { descriptorShortage } from '@livery/sds-server'
import { DEFAULT_LIMITS } from '@livery/sds-server/defaults'
import { makeDirectory } from '../../test/livery-process.ts'
import { loadConfig } from '../config/load.ts'
import { describeFindings } from './doctor.ts'
import { ok, skipped, warning, wrong } from './finding.ts'
import { openFilesFinding } from './limit-checks.ts'
import { agentFindings, type RunningAgent, trustFindings } from './running-agent.ts'

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

const AGENT: RunningAgent = {
  readiness: ['not ready', '  spiffe://a/b: the CA fails (unauthenticated): refused'],
  isReady: false,
  trust: { now: 0, trustDomains: [] },
  metric: () => 20_000,
}

test("the agent's failures that follow from the CA's refusal of this command say so", () => {
  for (const [code, follows] of [
    ['unauthenticated', true],
    ['timeout', false],
    [undefined, false],
  ] as const) {
    const [finding] = agentFindings(AGENT, code)
    assert.equal(/follows from the finding "ca"/.test(finding?.remedy ?? ''), follows, code)
  }
  assert.match(trustFindings(AGENT, 'denied')[0]?.remedy ?? '', /follows from the finding "ca"/)
  assert.match(trustFindings(AGENT)[0]?.remedy ?? '', /livery explain ROOTCA/)
})

test('a limit of open files of which the start warns is a warning here, and a very low one wrong', async () => {
  await using directory = await makeDirectory()
  await writeFile(
    join(directory.path, 'livery.yaml'),
    'ca: { plugin: embedded }\nidentities: [spiffe://cluster.local/a]\nsockets: [{ path: sds.sock }]\n',
  )
  const { config } = await loadConfig({ environment: {}, workingDirectory: directory.path, terminal: false })
  const { wanted = 0 } = descriptorShortage(0, 1, DEFAULT_LIMITS.connections) ?? {}
  for (const [limit, state] of [
    [wanted, 'ok'],
    [wanted - 1, 'warning'],
    [600, 'wrong'],
  ] as const)
    assert.equal(openFilesFinding(config, { ...AGENT, metric: () => limit }).state, state, `${limit}`)
})

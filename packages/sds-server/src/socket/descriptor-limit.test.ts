import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { isListening, startServer } from '../../test/running-server.ts'
import { descriptorShortage, parseDescriptorLimit, readDescriptorLimit } from './descriptor-limit.ts'

const LIMITS = `Limit                     Soft Limit           Hard Limit           Units
Max processes             95803                95803                processes
Max open files            1024                 1048576              files
Max locked memory         8388608              8388608              bytes
`

test('the limit is the soft one, of open files', () => {
  assert.equal(parseDescriptorLimit(LIMITS), 1_024)
  assert.equal(parseDescriptorLimit(LIMITS.replace('1024   ', 'unlimited')), undefined)
  assert.equal(parseDescriptorLimit('something else'), undefined)
})

test('a limit that is too low is reported with the number needed and the remedy', () => {
  assert.equal(descriptorShortage(10_129, 1, 10_000), undefined)
  assert.equal(descriptorShortage(undefined, 1, 10_000), undefined)
  const shortage = descriptorShortage(10_128, 1, 10_000)
  assert.equal(shortage?.wanted, 10_129)
  assert.match(
    shortage?.message ?? '',
    /is allowed 10128 open files.*limits\.connections 10000 needs 10129.*LimitNOFILE=/,
  )
})

test('a server whose limits the process cannot reach says so once for each higher need, and serves', {
  skip: readDescriptorLimit() === undefined && 'needs /proc and a limit of open files',
}, async t => {
  const available = readDescriptorLimit() ?? 0
  const directory = temporaryFolder(t)
  await using running = await startServer({ limits: { connections: available } })
  const reported = () => running.events.filter(event => event.kind === 'few-descriptors')
  assert.equal(reported().length, 1)
  await running.server.listen({ path: join(directory, 'small.sock'), limits: { connections: 1 } })
  assert.equal(reported().length, 1)
  await running.server.listen({ path: join(directory, 'big.sock'), limits: { connections: available * 2 } })
  const [first, second] = reported()
  assert.equal(first?.available, available)
  assert.ok(first && second && second.wanted > first.wanted)
  assert.ok(isListening(running.server, running.path))
})

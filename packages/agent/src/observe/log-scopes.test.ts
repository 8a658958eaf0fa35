import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Line, memoryLog } from '../../test/memory-log.ts'
import { everyScope } from '../schema/log-level.ts'

test('a scope has its own level from the moment of the change, and its lines name it', () => {
  const lines: Line[] = []
  const scopes = memoryLog('info', lines)
  const sds = scopes.of('sds')
  sds.debug('before')
  scopes.change({ sds: 'debug' })
  sds.debug('after')
  scopes.of('ca').debug('of another')
  scopes.change(everyScope('silent'))
  sds.error('too late')
  assert.deepEqual(lines, [{ level: 'debug', scope: 'sds', msg: 'after' }])
  assert.deepEqual(scopes.levels(), everyScope('silent'))
})

test('lines of the process itself have no scope, and the level of agent', () => {
  const lines: Line[] = []
  const scopes = memoryLog('info', lines)
  scopes.of('agent').info('it starts')
  scopes.change({ agent: 'warn' })
  scopes.of('agent').info('it goes on')
  assert.deepEqual(lines, [{ level: 'info', msg: 'it starts' }])
})

test('a level that is off costs no line: what would be written is not looked at', () => {
  const scopes = memoryLog('info')
  const fields = {
    get never(): string {
      return assert.fail('it was read')
    },
  }
  scopes.of('sds').debug(fields, 'not written')
})

test('a scope keeps its level when the process changes its level, which was the same', () => {
  const lines: Line[] = []
  const scopes = memoryLog('info', lines)
  scopes.change({ agent: 'silent' })
  scopes.of('sds').info('still there')
  assert.deepEqual(lines, [{ level: 'info', scope: 'sds', msg: 'still there' }])
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from './fault.ts'
import { everyScope, formatLogLevels, LOG_SCOPES, parseLogLevels } from './log-level.ts'

test('a level alone applies to every scope, one behind a scope only its own, in any order', () => {
  assert.deepEqual(parseLogLevels('debug'), everyScope('debug'))
  assert.deepEqual(parseLogLevels('sds:debug,ca:trace'), { sds: 'debug', ca: 'trace' })
  const both = { ...everyScope('warn'), sds: 'debug' }
  assert.deepEqual(parseLogLevels('warn, sds:debug'), both)
  assert.deepEqual(parseLogLevels('sds:debug,warn'), both)
})

test('levels are written as they are read', () => {
  for (const text of ['info', 'debug,admin:silent', 'info,ca:trace,sds:debug,trust:error']) {
    const levels = parseLogLevels(text)
    assert.ok(!(levels instanceof Fault))
    assert.equal(formatLogLevels({ ...everyScope('fatal'), ...levels }), text)
  }
})

test('a text that is wrong says which part, and what there is', () => {
  for (const [text, reason, remedy] of [
    ['', /^is none of trace, debug, info, warn, error, fatal, silent$/, /./],
    ['info,', /^has the level "", none of trace/, /./],
    ['warning', /^is none of trace/, /Write one of these/],
    ['sds:dbug', /^has the level "dbug", none of trace/, /Did you mean debug\?/],
    ['sds=debug', /^is none of trace/, /./],
    ['info,kubernets:debug', /^has the scope "kubernets", none of admin, agent/, /Did you mean kubernetes\?/],
    ['sds:debug,sds:info', /^has sds twice$/, /Leave one/],
    ['info,debug', /^has a level for every scope twice$/, /Leave one/],
    ['__proto__:debug', /^has the scope "__proto__", none/, /./],
  ] as const) {
    const fault = parseLogLevels(text)
    assert.ok(fault instanceof Fault, text)
    assert.match(fault.reason, reason)
    assert.match(fault.remedy, remedy)
  }
  assert.ok(LOG_SCOPES.length > 10)
})

/** The errors of a client's calls when it is closed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCAError } from '../../test/citadel-setup.ts'
import { Closable } from './closable.ts'

test('open calls and later ones end with an error that is not retryable', t => {
  const closable = new Closable('the CA at ca.example:15012')
  const open = closable.until(t.signal)
  closable.close()
  assert.ok(isCAError('unavailable', /^Cannot ask the CA at ca\.example:15012: its client is closed\.$/)(open.reason))
  assert.equal(open.reason.retryable, false)
  assert.throws(() => closable.until(t.signal), open.reason)
})

test('a call ends with its own signal, and one that has ended does not start', () => {
  const closable = new Closable('the CA')
  const reason = new Error('nobody waits')
  const call = new AbortController()
  const open = closable.until(call.signal)
  call.abort(reason)
  assert.equal(open.reason, reason)
  assert.throws(() => closable.until(call.signal), reason)
})

test('a call that has begun ends with the client, with its caller, and no more once it is over', t => {
  const closable = new Closable('the CA')
  const caller = new AbortController()
  const reason = new Error('nobody waits')
  const [first, second, over] = [t.signal, caller.signal, caller.signal].map(
    signal => closable.begin(signal).ending.signal,
  )
  const third = closable.begin(caller.signal)
  third[Symbol.dispose]()
  caller.abort(reason)
  assert.deepEqual(
    [first?.aborted, second?.reason, over?.reason, third.ending.signal.aborted],
    [false, reason, reason, false],
  )
  closable.close()
  assert.ok(isCAError('unavailable', /its client is closed/)(first?.reason))
  assert.deepEqual([second?.reason, third.ending.signal.aborted], [reason, false])
  assert.throws(() => closable.begin(t.signal), first?.reason)
  assert.throws(() => new Closable('the CA').begin(caller.signal), reason)
})

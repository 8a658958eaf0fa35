/** The kernel gives a port again soon after it was closed; the tests' processes must not meet there. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { freePort } from './listening.ts'

test('no port is given twice', async () => {
  const ports: number[] = []
  while (ports.length < 2_000) ports.push(await freePort())
  assert.equal(new Set(ports).size, ports.length)
})

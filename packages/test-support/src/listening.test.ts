/** The kernel gives a port again soon after it was closed; the tests' processes must not meet there. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

const CLAIM_PORTS = `
  import { freePort } from ${JSON.stringify(new URL('./listening.ts', import.meta.url).href)}
  const ports = []
  while (ports.length < 800) ports.push(await freePort())
  console.log(JSON.stringify(ports))
  process.stdin.resume()
`

test('no port is given twice, in one process or in two at a time', async () => {
  const programs = [1, 2].map(() => spawn(process.execPath, ['--input-type=module', '--eval', CLAIM_PORTS]))
  const printed = await Promise.all(programs.map(({ stdout }) => once(stdout.setEncoding('utf8'), 'data')))
  for (const program of programs) program.kill()
  const ports = printed.flatMap(([text]) => JSON.parse(text) as number[])
  assert.equal(ports.length, 1_600)
  assert.equal(new Set(ports).size, ports.length)
})

/** Tokens are read when they are used, and are seen by nobody but the CA. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { CAError } from '@livery/core/plugin'
import type { BenchCase } from '../kit/conformance-case.ts'
import { expectCAError, issue, issueBadly } from '../kit/expectations.ts'
import { rejection } from '../kit/in-time.ts'
import { kitRequest } from '../kit/kit-request.ts'

const group = 'token'
/** The parts of an error where a token may be; a stack repeats the message. */
const PARTS = ['message', 'cause', 'stack'] as const

export const tokenCases: readonly BenchCase[] = [
  {
    group,
    name: 'each call sends the token that the credentials give at that call',
    needs: ['token'],
    async run(on) {
      for (const token of ['conformance-token-1', 'conformance-token-2']) {
        on.context.credentials.token = token
        on.ca.token = token
        await issue(on)
      }
    },
  },
  {
    group,
    name: 'an expired token is "unauthenticated", and the same client works with a new one',
    needs: ['token', 'unauthenticated'],
    async run(on) {
      on.ca.token = 'conformance-token-2'
      const { retryable } = await issueBadly(on, ['unauthenticated'])
      assert.ok(retryable, 'the error says that asking again is of no use, but tokens get renewed')
      on.context.credentials.token = on.ca.token
      await issue(on)
    },
  },
  {
    group,
    name: 'the token of a request with a tokenFile is in that file',
    needs: ['token', 'token-file'],
    async run(on) {
      const folder = await mkdtemp(join(tmpdir(), 'livery-conformance-'))
      try {
        const tokenFile = join(folder, 'token')
        for (const token of ['conformance-file-token-1', 'conformance-file-token-2']) {
          await writeFile(tokenFile, `${token}\n`, { mode: 0o600 })
          on.ca.token = token
          await issue(on, { tokenFile })
        }
      } finally {
        await rm(folder, { recursive: true })
      }
    },
  },
  {
    group,
    name: 'an error of the credentials comes through, and the CA is not asked',
    needs: ['token'],
    async run(on) {
      const failure = new CAError('unauthenticated', 'Cannot use the token: it is empty. Write one.')
      on.context.credentials.failure = failure
      const asked = on.client.issue(await kitRequest(on))
      const error = expectCAError(
        await rejection(asked, on.patienceMs, 'issue() without credentials'),
        ['unauthenticated'],
        'issue() without credentials',
      )
      assert.ok(
        error === failure || error.message.includes('it is empty'),
        `the reason of the credentials is lost in: ${error.message}`,
      )
      assert.equal(on.ca.requests, 0)
    },
  },
  {
    group,
    name: 'no error and no log line holds the token, though the CA sends it back',
    needs: ['token', 'unauthenticated'],
    async run(on) {
      const { token } = on.context.credentials
      on.ca.fault = { kind: 'refuse', code: 'unauthenticated', message: `token ${token} has expired` }
      const error = await issueBadly(on, ['unauthenticated'])
      const holds = (value: unknown) => inspect(value, { depth: 10, showHidden: true }).includes(token)
      const part = PARTS.find(each => holds(error[each])) ?? 'properties'
      assert.ok(!holds(error), `the error holds the token in its ${part}`)
      assert.ok(!on.context.lines.some(line => line.includes(token)), 'a log line holds the token')
    },
  },
]

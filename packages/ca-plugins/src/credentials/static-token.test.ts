import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { isCAError } from '../../test/citadel-setup.ts'
import { jwt } from '../../test/token-server.ts'
import { pluginContext, warningsOf } from '../testing/plugin-context.ts'
import { staticToken } from './static-token.ts'

const { signal } = new AbortController()

test('the token is returned unchanged, after a warning that it is for tests', async () => {
  const context = pluginContext()
  const source = await staticToken.create(context, { token: 'hush' })
  assert.deepEqual(await source.get({ signal }), { token: 'hush' })
  assert.equal(warningsOf(context).length, 1)
  assert.match(warningsOf(context)[0] ?? '', /it is for tests/)
  assert.doesNotMatch(`${warningsOf(context)} ${source.description} ${JSON.stringify(source)}`, /hush/)
})

test('once it has expired it is refused', async () => {
  const source = await staticToken.create(pluginContext(), { token: jwt({ exp: 1 }) })
  await assert.rejects(
    source.get({ signal }),
    isCAError('unauthenticated', /the token in the configuration: it expired/),
  )
})

test("an identity's own token file takes precedence over it", async t => {
  const file = join(temporaryFolder(t), 'token')
  await writeFile(file, 'token-of-api')
  const source = await staticToken.create(pluginContext(), { token: 'hush' })
  assert.equal((await source.get({ tokenFile: file, signal })).token, 'token-of-api')
})

test('an invalid token is a problem of its option', () => {
  const { token } = staticToken.options
  assert.equal(token.problem('abc.def'), undefined)
  for (const wrong of ['', 'two words', 'line\n']) assert.match(token.problem(wrong) ?? '', /^is empty or has/)
  assert.equal(token.problem('abc'), 'has fewer than 4 characters. Write the whole token')
})

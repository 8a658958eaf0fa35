import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { chmod, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { FakeClock } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { isCAError, replaceFile } from '../../test/citadel-setup.ts'
import { jwt } from '../../test/token-server.ts'
import { pluginContext } from '../testing/plugin-context.ts'
import { tokenFile } from './token-file.ts'

const { signal } = new AbortController()
/** The start of the fake clock, in seconds since the epoch. */
const NOW = Date.UTC(2026, 0, 1) / 1000

test('the file is read at each call, without the white space around the token', async t => {
  const file = join(temporaryFolder(t), 'token')
  const source = await tokenFile.create({ ...pluginContext(), tokenFile: file }, {})
  await writeFile(file, 'token-1\n')
  assert.deepEqual(await source.get({ signal }), { token: 'token-1' })
  await replaceFile(file, '  token-2\r\n')
  assert.deepEqual(await source.get({ signal }), { token: 'token-2' })
})

test('an own file takes precedence over the common one', async t => {
  const directory = temporaryFolder(t)
  const files = { common: join(directory, 'common'), own: join(directory, 'own') }
  for (const [name, file] of Object.entries(files)) await writeFile(file, `token-${name}`)
  const context = { ...pluginContext(), tokenFile: files.common }
  const common = await tokenFile.create(context, {})
  assert.equal((await common.get({ signal })).token, 'token-common')
  assert.equal((await common.get({ signal, tokenFile: files.own })).token, 'token-own')
  assert.equal(common.description, `the token in ${files.common}`)
})

test('without a file it is configured only for identities that have one of their own', async () => {
  const source = await tokenFile.create(pluginContext(), {})
  assert.equal(source.isConfigured?.({}), false)
  assert.equal(source.isConfigured?.({ tokenFile: '/own' }), true)
  await assert.rejects(source.get({ signal }), isCAError('unauthenticated', /no file is named\. Set tokenFile/))
})

test('a JWT comes with its expiry, and is refused from that instant on, before anybody gets it', async t => {
  const file = join(temporaryFolder(t), 'token')
  const clock = new FakeClock()
  const source = await tokenFile.create({ ...pluginContext({ clock }), tokenFile: file }, {})
  const token = jwt({ exp: NOW + 600, sub: 'hush' })
  await writeFile(file, token)
  assert.deepEqual(await source.get({ signal }), { token, expiresAt: (NOW + 600) * 1000 })
  clock.jump(599_999)
  assert.equal((await source.get({ signal })).token, token)
  clock.jump(1)
  await assert.rejects(source.get({ signal }), (error: Error) => {
    assert.ok(!error.message.includes(token))
    return isCAError(
      'unauthenticated',
      /the token in .*token: it expired at 2026-01-01T00:10:00\.000Z, and now is 2026-01-01T00:10:00\.000Z\. See that .*kubelet/,
    )(error)
  })
  await replaceFile(file, jwt({ exp: NOW + 1200 }))
  await source.get({ signal })
})

const opaque: readonly (readonly [string, string])[] = [
  ['of one word', 'opaque'],
  ['of three parts that are not a JWT', 'a.b.c'],
  ['a JWT without an expiry', jwt({})],
  ['a JWT whose expiry is not a number', jwt({ exp: 'soon' })],
  ['a JWT whose expiry no date can name', jwt({ exp: 1e300 })],
]
for (const [what, token] of opaque)
  test(`a token that is ${what} is passed on`, async t => {
    const file = join(temporaryFolder(t), 'token')
    await writeFile(file, token)
    const source = await tokenFile.create({ ...pluginContext(), tokenFile: file }, {})
    assert.deepEqual(await source.get({ signal }), { token })
  })

const unusable: readonly (readonly [string, string | undefined, RegExp])[] = [
  ['missing', undefined, /ENOENT/],
  ['empty', ' \n', /it is empty/],
  ['three characters', 'abc\n', /use the token in \/.*: it has fewer than 4 characters\. Mount a token there/],
  ['over 64 kB', 'x'.repeat(65_537), /65537 bytes, more than 65536/],
  ['of two lines', 'hush-one\nhush-two', /a character that no token has/],
]
for (const [what, text, reason] of unusable)
  test(`a file that is ${what} is unauthenticated, named, and its content stays secret`, async t => {
    const file = join(temporaryFolder(t), 'token')
    if (text !== undefined) await writeFile(file, text)
    const source = await tokenFile.create({ ...pluginContext(), tokenFile: file }, {})
    await assert.rejects(source.get({ signal }), (error: Error) => {
      assert.match(error.message, reason)
      assert.doesNotMatch(error.message, /hush/)
      return isCAError('unauthenticated', /Cannot use the token in .*token: .*Mount a token there/)(error)
    })
    await rm(file, { force: true })
    await writeFile(file, 'token-1')
    assert.equal((await source.get({ signal })).token, 'token-1')
  })

test('a file that others can write is refused, and the message ends with the command', async t => {
  const file = join(temporaryFolder(t), 'token')
  await writeFile(file, 'hush')
  await chmod(file, 0o666)
  const source = await tokenFile.create({ ...pluginContext(), tokenFile: file }, {})
  const refused = isCAError('unauthenticated', /can be written by others\. .* run "chmod go-w \/.*token"\.$/)
  await assert.rejects(source.get({ signal }), refused)
})

test('a directory or a FIFO is refused without blocking', async t => {
  const directory = temporaryFolder(t)
  execFileSync('mkfifo', [join(directory, 'fifo')])
  const source = await tokenFile.create(pluginContext(), {})
  for (const file of [directory, join(directory, 'fifo')])
    await assert.rejects(source.get({ signal, tokenFile: file }), isCAError('unauthenticated', /not a regular file/))
})

test('an aborted request rejects with the reason of its signal', async t => {
  const file = join(temporaryFolder(t), 'token')
  await writeFile(file, 'token-1')
  const source = await tokenFile.create({ ...pluginContext(), tokenFile: file }, {})
  const reason = new Error('nobody waits')
  await assert.rejects(source.get({ signal: AbortSignal.abort(reason) }), reason)
})

import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { PageFiles } from './page-files.ts'

test('a file is read once it is built, and its tag depends on its content', async t => {
  const directory = temporaryFolder(t)
  const folder = pathToFileURL(`${directory}/`)
  const files = new PageFiles(folder)
  assert.equal(await files.get('app.js'), undefined)
  await writeFile(new URL('app.js', folder), 'let a = 1\n')
  const first = await files.get('app.js')
  assert.deepEqual([first?.text, first?.contentType], ['let a = 1\n', 'text/javascript; charset=utf-8'])
  assert.match(first?.etag ?? '', /^"[\w-]{43}"$/)
  await writeFile(new URL('app.js', folder), 'let a = 2\n')
  assert.equal(await files.get('app.js'), first)
  assert.notEqual((await new PageFiles(folder).get('app.js'))?.etag, first?.etag)
})

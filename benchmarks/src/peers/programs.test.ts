import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import { findPrograms, pathOf, whatIsAbsent } from './programs.ts'

async function makeFolder(t: TestContext, files: Readonly<Record<string, number>>): Promise<string> {
  const folder = temporaryFolder(t)
  for (const [name, mode] of Object.entries(files)) await writeFile(join(folder, name), '#!/bin/sh\n', { mode })
  return folder
}

test('a program that is there has its path, one that is not there is named', async t => {
  const folder = await makeFolder(t, { sdsload: 0o755 })
  const programs = await findPrograms(folder)
  assert.equal(pathOf(programs, 'sdsload'), join(folder, 'sdsload'))
  assert.equal(whatIsAbsent(programs, ['sdsload']), undefined)
  assert.equal(whatIsAbsent(programs, ['sdsload', 'neutralca']), 'LIVERY_PEERS has no file neutralca')
  assert.throws(() => pathOf(programs, 'neutralca'), /Cannot run neutralca: LIVERY_PEERS has no file/)
})

test('without the variable everything is absent, for one reason', async () => {
  const programs = await findPrograms(undefined)
  assert.equal(whatIsAbsent(programs, ['sdsload', 'sdspeer']), 'LIVERY_PEERS is not set')
  assert.equal(whatIsAbsent(programs, []), undefined)
})

test('a file that cannot be executed is an error and not a skip', async t => {
  const folder = await makeFolder(t, { sdsload: 0o644 })
  await assert.rejects(findPrograms(folder), /sdsload: it is not executable\. chmod \+x it/)
})

test('a path that is relative, or not a folder, is refused', async t => {
  const folder = await makeFolder(t, { file: 0o644 })
  await assert.rejects(findPrograms('bin'), /LIVERY_PEERS=bin: it is a relative path/)
  await assert.rejects(findPrograms(join(folder, 'file')), /it is not a directory/)
  await assert.rejects(findPrograms(join(folder, 'missing')), /it is not there/)
})

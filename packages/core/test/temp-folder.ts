/** A folder that is removed with its test. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'

export async function tempFolder(t: Pick<TestContext, 'after'>): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'livery-'))
  t.after(() => rm(path, { recursive: true, force: true }))
  return path
}

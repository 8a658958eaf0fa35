/** @peculiar/x509 is an optional peer: only `@livery/core/testing` loads it. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

/** Prints which of the optional peers `specifier` loads. */
const program = (specifier: string) => `
  import { registerHooks } from 'node:module'
  registerHooks({
    resolve(wanted, context, next) {
      if (/^(@peculiar|reflect-metadata)/.test(wanted)) console.log(wanted)
      return next(wanted, context)
    },
  })
  await import('${specifier}')`

async function peersOf(specifier: string): Promise<ReadonlySet<string>> {
  const args = ['--conditions=@livery/source', '--input-type=module', '--eval', program(specifier)]
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: import.meta.dirname })
  return new Set(stdout.split('\n').filter(Boolean))
}

test('core and the names for plugins load no optional peer, and testing loads them', async () => {
  assert.deepEqual(await peersOf('@livery/core'), new Set())
  assert.deepEqual(await peersOf('@livery/core/plugin'), new Set())
  assert.ok((await peersOf('@livery/core/testing')).has('@peculiar/x509'))
})

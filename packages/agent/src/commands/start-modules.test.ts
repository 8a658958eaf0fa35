/** The modules that a start loads: they cost every node CPU, once per start. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'

/** Prints the built-in modules that were loaded, and the files of ours. */
const SCRIPT = `
import { registerHooks } from 'node:module'
const files = []
registerHooks({ load(url, context, next) { files.push(url); return next(url, context) } })
await import(process.argv[1] + 'cli.ts')
await import(process.argv[1] + 'commands/run.ts')
await import(process.argv[1] + 'admin/admin-server.ts')
await (await import(process.argv[1] + 'plugin/built-in-plugins.ts')).BUILT_IN_CA_PLUGINS.citadel()
console.log(JSON.stringify({ builtIn: process.moduleLoadList, files }))
`

/** 678 when this was written; each takes most of a millisecond of CPU without V8's cache. */
const MOST_MODULES = 740

test('a start loads neither what other commands need, nor X.509 in JavaScript, nor the WebSockets of node:http', async () => {
  const source = new URL('../', import.meta.url).href
  const options = ['--conditions=@livery/source', '--input-type=module', '--eval', SCRIPT, source]
  const { stdout } = await promisify(execFile)(process.execPath, options, { maxBuffer: 10_000_000 })
  const { builtIn, files }: { readonly builtIn: readonly string[]; readonly files: readonly string[] } =
    JSON.parse(stdout)
  assert.ok(builtIn.includes('NativeModule http2'))
  assert.deepEqual(
    builtIn.filter(name => name.includes('undici')),
    [],
  )
  // Their certificates are read in Rust or by Node.
  assert.deepEqual(
    files.filter(file => /@peculiar|asn1/.test(file)),
    [],
  )
  assert.ok(files.length < MOST_MODULES, `${files.length} modules`)
  const names = files.map(file => file.replace(source, ''))
  assert.ok(names.includes('runtime/app.ts'))
  const ofCommands = names.filter(name => name.startsWith('commands/'))
  assert.deepEqual(ofCommands.toSorted(), ['commands/exit-code.ts', 'commands/run.ts', 'commands/shutdown.ts'])
})

/** The guide for authors lists what there is: every switch, value, type of option and reserved name. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { AGENT_OPTION_NAMES, KEY_TYPES, pluginFaults } from '@livery/core/plugin'
import { CA_SWITCHES } from './kit/fake-ca-fault.ts'
import { createKitContext } from './kit/kit-context.ts'
import { MovableClock } from './kit/movable-clock.ts'

function read(name: string): Promise<string> {
  return readFile(new URL(`../../docs/${name}.md`, import.meta.url), 'utf8')
}

function expectNamed(text: string, names: readonly string[]): void {
  assert.deepEqual(
    names.filter(name => !text.includes(`\`${name}\``)),
    [],
  )
}

/** The values that a fault lists: `roots is 1, not one of none, poll, push. …` */
function choicesOf(field: string, plugin: object): readonly string[] {
  const fault = pluginFaults('ca', plugin).find(each => each.startsWith(field)) ?? ''
  return /not one of ([^.]+)\./.exec(fault)?.[1]?.split(', ') ?? assert.fail(`no choices in: ${fault}`)
}

test('conformance.md names every switch of the fake CA', async () => {
  expectNamed(await read('conformance'), CA_SWITCHES)
})

test('writing-a-plugin.md names the values of capabilities, the types of options, and the names that are taken', async () => {
  const text = await read('writing-a-plugin')
  const plugin = { capabilities: { roots: 1, ttl: 1, san: 1 }, options: { a: { type: 1, description: '' } } }
  const fields = ['capabilities.roots', 'capabilities.ttl', 'capabilities.san', 'options.a.type']
  expectNamed(
    text,
    fields.flatMap(field => choicesOf(field, plugin)),
  )
  expectNamed(text, [...KEY_TYPES, ...AGENT_OPTION_NAMES.ca])
})

test('writing-a-plugin.md names the fields of the context', async () => {
  using clock = new MovableClock()
  const { lines: _, ...context } = createKitContext(clock, 'cluster.local')
  expectNamed(await read('writing-a-plugin'), [...Object.keys(context), 'tls'])
})

test('the code of writing-a-plugin.md is that of the example', async () => {
  const example = await readFile(new URL('../../../../examples/ca-plugin/conformance.test.ts', import.meta.url), 'utf8')
  assert.ok(
    (await read('writing-a-plugin')).includes(`\`\`\`ts\n${example}\`\`\`\n`),
    'copy conformance.test.ts into the guide',
  )
})

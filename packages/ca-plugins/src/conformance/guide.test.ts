/** The code of the guide for authors is the example's, which runs. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'

const read = (path: string) => readFile(new URL(`../../../../${path}`, import.meta.url), 'utf8')

test('the code of writing-a-plugin.md is that of the example', async () => {
  const guide = await read('packages/ca-plugins/docs/writing-a-plugin.md')
  const example = await read('examples/ca-plugin/conformance.test.ts')
  assert.ok(guide.includes(`\`\`\`ts\n${example}\`\`\`\n`), 'copy conformance.test.ts into the guide')
})

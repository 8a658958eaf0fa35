import { test } from 'node:test'
import { lookup } from './addon.ts'
import { NativeKeyGenerator } from './native-key-generator.ts'
import { keyGeneratorSuite } from './suite.ts'

const { addon } = lookup

if (addon) {
  const slow = process.env['LIVERY_SLOW'] === '1'
  keyGeneratorSuite({ test, create: () => new NativeKeyGenerator(addon), slow })
} else {
  test('the native generator passes the suite', { skip: lookup.reason }, () => {})
}

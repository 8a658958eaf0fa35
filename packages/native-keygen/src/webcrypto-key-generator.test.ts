import { test } from 'node:test'
import { keyGeneratorSuite } from './suite.ts'
import { WebCryptoKeyGenerator } from './webcrypto-key-generator.ts'

const slow = process.env['LIVERY_SLOW'] === '1'
keyGeneratorSuite({ test, create: () => new WebCryptoKeyGenerator(), slow })

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CAPlugin, defineCAPlugin, KEY_TYPES } from '@livery/core'
import { createKeyGenerator } from '@livery/native-keygen'
import type { CASection } from '../config/ca-section.ts'
import { chooseKeyGenerator } from './choose-key-generator.ts'

const skip = createKeyGenerator({ pool: false }).reason ?? false

function caThat(does: 'signs' | 'brings keys', members?: readonly CASection[]): CASection {
  const plugin: CAPlugin = defineCAPlugin({
    apiVersion: 1,
    name: 'any',
    capabilities: { roots: 'none', ttl: 'ignored', san: 'csr', keyTypes: KEY_TYPES, bringsKey: does === 'brings keys' },
    options: {},
    create() {
      throw new Error('is not asked for here')
    },
  })
  return { plugin, options: {}, ...(members && { members }) }
}

const SETTINGS = { keyGenerator: 'native', keyPool: { cpu: 0.25 }, keyType: 'rsa-2048', rsaKeys: 'simd' } as const

function hasPool(ca: CASection): boolean {
  using generator = chooseKeyGenerator({ ...SETTINGS, ca }, () => {})
  return generator.prepare !== undefined
}

test('keys are made ahead for a CA that signs, and not for one that brings its own', { skip }, () => {
  assert.equal(hasPool(caThat('signs')), true)
  assert.equal(hasPool(caThat('brings keys')), false)
})

test('of a list of CAs one that signs is enough for keys to be made ahead', { skip }, () => {
  const signs = caThat('signs')
  const brings = caThat('brings keys')
  assert.equal(hasPool(caThat('brings keys', [brings, signs])), true)
  assert.equal(hasPool(caThat('brings keys', [brings, brings])), false)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { optionalPackage } from './optional-package.ts'

test('an installed package is returned unchanged', async () => {
  assert.equal((await optionalPackage('google-ca', 'node:path', import('node:path'))).sep, '/')
})

test('a package that is not installed is named with the plugin and the command that installs it', async () => {
  const name: string = '@livery/no-such-package'
  await assert.rejects(optionalPackage('acme', name, import(name)), {
    message:
      'Cannot load the acme plugin: the package @livery/no-such-package is not installed. Install it beside Livery: npm install @livery/no-such-package',
  })
})

test('a package that is installed and broken fails with its own error', async () => {
  const broken = Object.assign(new Error("Cannot find package 'lodash'"), { code: 'ERR_MODULE_NOT_FOUND' })
  await assert.rejects(optionalPackage('google-ca', 'google-auth-library', Promise.reject(broken)), broken)
})

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { plainAddress } from './admin-address.ts'

test('an address is taken as a URL, with a slash at its end, and as a port alone; nothing else is changed', () => {
  const forms: readonly [string, string][] = [
    ['127.0.0.1:15100', '127.0.0.1:15100'],
    ['http://127.0.0.1:15100', '127.0.0.1:15100'],
    ['HTTP://localhost:15100/', 'localhost:15100'],
    ['127.0.0.1:15100/', '127.0.0.1:15100'],
    ['http://[::1]:15100', '[::1]:15100'],
    ['15100', '127.0.0.1:15100'],
    ['unix:/run/admin.sock', 'unix:/run/admin.sock'],
    ['https://127.0.0.1:15100', 'https://127.0.0.1:15100'],
    ['http://user:word@host:1/', 'http://user:word@host:1'],
    ['http://host:1/path', 'http://host:1/path'],
  ]
  for (const [text, plain] of forms) assert.equal(plainAddress(text), plain)
})

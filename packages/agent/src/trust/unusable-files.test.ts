import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeIssuer } from '@livery/core/testing'
import { temporaryFolder } from '@livery/test-support'
import { unusableTrustFiles } from './unusable-files.ts'

test('files of trust that are missing or no roots are listed by their keys, and those that can be used are not', async t => {
  const directory = temporaryFolder(t)
  const { pem } = await makeIssuer('CN=root', Date.now())
  const write = (name: string, text: string) => {
    const path = join(directory, name)
    writeFileSync(path, text)
    return path
  }
  const missing = join(directory, 'missing.pem')
  const roots = write('roots.pem', pem)
  const poll = 300_000
  const trust = {
    poll,
    anchors: [pem, roots, missing],
    federated: {
      'other.example': { file: write('empty.pem', '') },
      'third.example': { url: 'https://third.example/bundle', rootCert: missing },
      'fourth.example': { file: roots, crl: missing },
    },
    crl: missing,
  }
  const warnings = await unusableTrustFiles({ trustDomain: 'cluster.local', trust })
  assert.deepEqual(
    warnings.map(line => line.split(' ', 1)[0]),
    [
      'trust.anchors[2]',
      'trust.federated.other.example.file',
      'trust.federated.third.example.rootCert',
      'trust.federated.fourth.example.crl',
      'trust.crl',
    ],
  )
  assert.match(warnings[0] ?? '', /cannot be used: \S+missing\.pem: .*ENOENT/)
  assert.match(warnings[1] ?? '', /it has no PEM certificate/)
  assert.deepEqual(
    await unusableTrustFiles({ trustDomain: 'cluster.local', trust: { poll, anchors: [], federated: {} } }),
    [],
  )
})

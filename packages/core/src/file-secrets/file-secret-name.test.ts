import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FileSecretName } from '../secrets/secret-name.ts'
import { foldersOf, formatFileName, matchesFilePattern, parseFileName, parseFilePattern } from './file-secret-name.ts'

function nameOf(text: string): FileSecretName {
  const name = parseFileName(text)
  assert.ok(typeof name !== 'string', `${text}: it ${name}`)
  return name
}

function matches(pattern: string, name: string): boolean {
  const parsed = parseFilePattern(pattern)
  assert.ok(typeof parsed !== 'string', `${pattern}: it ${parsed}`)
  return matchesFilePattern(parsed, nameOf(name))
}

test('a name is read, and written as it was', () => {
  for (const text of [
    'file-cert:/a/cert.pem~/b/key.pem',
    'file-root:/a/ca.pem',
    'file-root:system',
    'kubernetes://edge/web',
    'kubernetes://edge/web-cacert',
  ])
    assert.equal(formatFileName(nameOf(text)), text)
})

test('a Secret without a namespace is in the one of the agent, and -cacert at the end means the roots', () => {
  const [namespace, name] = ['edge', 'web']
  assert.deepEqual(parseFileName('kubernetes://web', 'edge'), { kind: 'kubernetes-pair', namespace, name })
  assert.deepEqual(parseFileName('kubernetes://web-cacert', 'edge'), { kind: 'kubernetes-roots', namespace, name })
  assert.equal(parseFileName('kubernetes://web'), 'names no namespace, and this agent has no default namespace')
})

test('a pattern of Secrets names one, or all of a namespace', () => {
  assert.ok(matches('kubernetes://edge/web', 'kubernetes://edge/web'))
  assert.ok(matches('kubernetes://edge/*', 'kubernetes://edge/web-cacert'))
  for (const [pattern, name] of [
    ['kubernetes://edge/web', 'kubernetes://edge/web-cacert'],
    ['kubernetes://edge/web-cacert', 'kubernetes://edge/web'],
    ['kubernetes://edge/web', 'kubernetes://other/web'],
    ['kubernetes://edge/*', 'kubernetes://edge-2/web'],
    ['kubernetes://edge/*', 'file-root:/edge/web'],
    ['file-root:/edge/**', 'kubernetes://edge/web'],
  ] as const)
    assert.ok(!matches(pattern, name), `${pattern} ${name}`)
  for (const pattern of ['kubernetes://*', 'kubernetes://*/web', 'kubernetes://edge/web-*', 'kubernetes://web'])
    assert.equal(typeof parseFilePattern(pattern), 'string', pattern)
  assert.deepEqual(foldersOf({ kind: 'kubernetes', namespace: 'edge' }), [])
})

test('a name of another form, and a path with more than one form, are refused with the reason', () => {
  for (const [text, reason] of [
    ['file-cert:/a/cert.pem', 'is not file-cert:CHAIN~KEY'],
    ['file-cert:/a~/b~/c', 'is not file-cert:CHAIN~KEY'],
    ['file-cert:~', 'has a path that is not absolute'],
    ['file-cert:system~/b', 'has a path that is not absolute'],
    ['file-cert:a/cert.pem~/b', 'has a path that is not absolute'],
    ['file-cert:/etc/certs/../shadow~/b', 'has a path with . or .. in it'],
    ['file-cert:/b~/etc/certs/..', 'has a path with . or .. in it'],
    ['file-root:/a/./b', 'has a path with . or .. in it'],
    ['file-root:/a//b', 'has a path with an empty part'],
    ['file-root:/a/', 'has a path with an empty part'],
    ['file-root:/', 'has a path with an empty part'],
    ['file-root:', 'has a path that is not absolute'],
    ['file-root:System', 'has a path that is not absolute'],
    ['file-root:/a\0/b', 'has a path with a control character'],
    ['file-root:/a\n', 'has a path with a control character'],
    ['kubernetes://a/b/c', 'is not kubernetes://NAMESPACE/NAME'],
    ['kubernetes://edge/', 'has a part that is no name of Kubernetes'],
    ['kubernetes:///web', 'has a part that is no name of Kubernetes'],
    ['kubernetes://edge/..', 'has a part that is no name of Kubernetes'],
    ['kubernetes://edge/web?x', 'has a part that is no name of Kubernetes'],
    ['kubernetes://edge/Web', 'has a part that is no name of Kubernetes'],
    ['file-root:/a/*', 'has * elsewhere than in /* or /** at the end of a folder'],
  ] as const)
    assert.equal(parseFileName(text), reason, text)
})

test('what looks like another path is the name of a file', () => {
  for (const path of ['/a/%2e%2e/b', '/a/..data/key.pem', '/a/...', '/a/ b'])
    assert.deepEqual(parseFileName(`file-root:${path}`), { kind: 'file-roots', file: path })
})

test('a pattern matches both files of a pair, and its own kind', () => {
  const pair = 'file-cert:/etc/certs/cert.pem~/etc/certs/key.pem'
  assert.ok(matches(pair, pair))
  assert.ok(matches('file-cert:/etc/certs/*', pair))
  assert.ok(matches('file-cert:/etc/**', pair))
  assert.ok(matches('file-cert:/etc/certs/*~/etc/certs/key.pem', pair))
  for (const pattern of [
    'file-cert:/etc/certs/cert.pem~/etc/certs/other.pem',
    'file-cert:/etc/*',
    'file-cert:/etc/cert/*',
    'file-cert:/etc/certs/cert.pem/*',
    'file-root:/etc/certs/*',
  ])
    assert.ok(!matches(pattern, pair), pattern)
  for (const other of [
    'file-cert:/etc/certs/cert.pem~/etc/other/key.pem',
    'file-cert:/etc/other/cert.pem~/etc/certs/key.pem',
    'file-cert:/etc/certs/below/cert.pem~/etc/certs/below/key.pem',
    'file-cert:/etc/certs-2/cert.pem~/etc/certs-2/key.pem',
    'file-root:/etc/certs/cert.pem',
  ])
    assert.ok(!matches('file-cert:/etc/certs/*', other), other)
  assert.ok(matches('file-root:/etc/certs/**', 'file-root:/etc/certs/a/b'))
  assert.ok(matches('file-root:/etc/certs/ca.pem', 'file-root:/etc/certs/ca.pem'))
})

test('a pattern that would match nothing, or all of the machine, is refused', () => {
  for (const pattern of [
    'file-cert:/etc/certs/cert.pem',
    'file-cert:/**',
    'file-root:/*',
    'file-root:/etc/*/ca.pem',
    'file-root:/etc/cert*',
    'file-root:/a~/b',
    'file-cert:/a/*~/b~/c',
    'file-cert:relative/*',
    'file-root:/etc/../**',
    'file-other:/a',
  ])
    assert.equal(typeof parseFilePattern(pattern), 'string', pattern)
})

test('the folders of a pattern are the folders of its files', () => {
  const folders = (pattern: string) => {
    const parsed = parseFilePattern(pattern)
    return typeof parsed === 'string' ? parsed : foldersOf(parsed)
  }
  assert.deepEqual(folders('file-cert:/a/cert.pem~/b/key.pem'), ['/a', '/b'])
  assert.deepEqual(folders('file-root:/etc/certs/**'), ['/etc/certs', '/etc/certs'])
})

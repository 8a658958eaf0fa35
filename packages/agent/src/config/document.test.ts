import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { ConfigError } from './config-error.ts'
import { contentDigest, isTreeObject, parseConfigDocument, readDocument } from './document.ts'

const directory = mkdtempSync(join(tmpdir(), 'livery-document-'))
after(() => rmSync(directory, { recursive: true }))

function messageOf(text: string): string {
  try {
    parseConfigDocument(text, '/x/livery.yaml')
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.message
  }
  return assert.fail('it was accepted')
}

function write(name: string, content: string | Uint8Array): string {
  const file = join(directory, name)
  writeFileSync(file, content)
  return file
}

test('a document remembers the line of every key and list item', () => {
  const { value, lines } = parseConfigDocument('a: 1\nb:\n  c: [x,\n    y]\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(value)), { a: 1, b: { c: ['x', 'y'] } })
  assert.deepEqual(
    ['a', 'b', 'b.c', 'b.c[0]', 'b.c[1]'].map(path => lines.get(path)),
    [1, 2, 3, 3, 4],
  )
})

test('JSON is read as well', () => {
  const { value, lines } = parseConfigDocument('{\n\t"ca": {\n\t\t"plugin": "embedded"\n\t}\n}\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(value)), { ca: { plugin: 'embedded' } })
  assert.equal(lines.get('ca.plugin'), 3)
})

test('objects have no prototype', () => {
  const { value } = parseConfigDocument('a: { b: 1 }', 'f')
  assert.ok(isTreeObject(value) && isTreeObject(value['a']))
  assert.equal(Object.getPrototypeOf(value), null)
  assert.equal(Object.getPrototypeOf(value['a']), null)
})

for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
  test(`the key ${key} is refused wherever it stands`, () => {
    assert.match(
      messageOf(`a: 1\nca:\n  ${key}: { polluted: true }\n`),
      new RegExp(`livery.yaml:3: ca.${key}: unknown key`),
    )
    assert.equal(Reflect.get({}, 'polluted'), undefined)
  })
}

test('a key that is written twice is refused with its line', () => {
  assert.equal(
    messageOf('ttl: 1h\na: 1\nttl: 2h\n'),
    '/x/livery.yaml:3: cannot be read as YAML: a key is written twice. Remove one of them.',
  )
  assert.match(messageOf('{"a": 1,\n"a": 2}'), /:2: .*written twice/)
})

test('aliases work, but not to blow a file up', () => {
  const { value } = parseConfigDocument('a: &x [1, 2]\nb: *x\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(value)), { a: [1, 2], b: [1, 2] })
  const bomb = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
  for (let level = 1; level < 10; level++) {
    bomb.push(
      `a${level}: &a${level} [${Array(10)
        .fill(`*a${level - 1}`)
        .join(', ')}]`,
    )
  }
  assert.match(messageOf(bomb.join('\n')), /aliases blow it up to over 200000 values/)
})

test('an alias to its own parent ends in an error, not in a loop', () => {
  assert.match(messageOf('a: &x\n  b: *x\n'), /nested deeper than 16 levels/)
})

test('a merge key is a key like any other, and so nothing that Livery knows', () => {
  const { value } = parseConfigDocument('a: &x { b: 1 }\nc:\n  <<: *x\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(value)), { a: { b: 1 }, c: { '<<': { b: 1 } } })
})

test('tabs, open quotes, unknown tags and second documents are named with their line', () => {
  assert.match(messageOf('ca:\n\tplugin: x\n'), /:2: cannot be read as YAML: .*[Tt]ab/)
  assert.match(messageOf('a: 1\nb: "x\n'), /:[23]: cannot be read as YAML: .*quote/)
  assert.match(messageOf('a: !secret x\n'), /:1: cannot be read as YAML: .*!secret/)
  assert.match(messageOf('a: 1\n---\nb: 2\n'), /multiple documents/)
})

test('a file that is missing, a directory, too big or not text is refused with the reason', () => {
  assert.throws(() => readDocument(join(directory, 'none')), /none: the file does not exist\. Check the path\./)
  assert.throws(() => readDocument(directory), /is not a regular file\. Name a YAML or JSON file\./)
  assert.throws(
    () => readDocument(write('big', Buffer.alloc(10 * 1024 * 1024, 'a: 1\n'))),
    /is 10485760 bytes, more than the 4194304 allowed/,
  )
  assert.throws(() => readDocument(write('latin1', Buffer.from([0x61, 0x3a, 0x20, 0xff]))), /is not UTF-8 text/)
})

test('a FIFO is refused, and not waited for', () => {
  const fifo = join(directory, 'fifo')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  assert.throws(() => readDocument(fifo), /is not a regular file/)
  assert.match(contentDigest(fifo), /^[0-9a-f]{64}$/)
})

test('the digest tells one content from another, and a file that is there from one that is not', () => {
  const [a, b] = [write('a.yaml', 'x: 1'), write('b.yaml', 'x: 1 ')]
  assert.equal(readDocument(a).digest, contentDigest(a))
  assert.equal(contentDigest(write('c.yaml', 'x: 1')), contentDigest(a))
  assert.equal(new Set([a, b, join(directory, 'none')].map(contentDigest)).size, 3)
})

test('whatever the text, it is read or refused with a ConfigError', () => {
  const yamlish = fc.array(
    fc.constantFrom(
      'a',
      ': ',
      '\n',
      '  ',
      '- ',
      '&x ',
      '*x',
      '{',
      '}',
      '[',
      ']',
      '"',
      '!',
      '|',
      '\t',
      '#',
      '? ',
      '%',
      '\u0000',
    ),
    { maxLength: 40 },
  )
  const run = (text: string): void => {
    try {
      parseConfigDocument(text, 'f')
    } catch (error) {
      assert.ok(error instanceof ConfigError, `${JSON.stringify(text)}: ${error}`)
    }
  }
  const numRuns = process.env['LIVERY_SLOW'] ? 20_000 : 1_000
  fc.assert(
    fc.property(
      yamlish.map(parts => parts.join('')),
      run,
    ),
    { numRuns },
  )
  fc.assert(fc.property(fc.string(), run), { numRuns })
})

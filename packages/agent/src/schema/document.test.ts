import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'
import fc from 'fast-check'
import { ConfigError } from './config-error.ts'
import { type ConfigNode, isTreeObject, Location, type Path, plain } from './config-tree.ts'
import { contentDigest, parseConfigDocument, readDocument } from './document.ts'

const directory = temporaryFolder({ after })

function messageOf(text: string): string {
  try {
    parseConfigDocument(text, '/x/livery.yaml')
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error))
    return error.message
  }
  return assert.fail('it was accepted')
}

function lineOf(root: ConfigNode, ...path: Path): number | undefined {
  const { origin } = new Location(root, path)
  return origin.kind === 'file' ? origin.line : undefined
}

function write(name: string, content: string | Uint8Array): string {
  const file = join(directory, name)
  writeFileSync(file, content)
  return file
}

test('a document remembers the line of every key and list item', () => {
  const root = parseConfigDocument('a: 1\nb:\n  c: [x,\n    y]\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(plain(root))), { a: 1, b: { c: ['x', 'y'] } })
  assert.deepEqual(
    [
      lineOf(root, 'a'),
      lineOf(root, 'b'),
      lineOf(root, 'b', 'c'),
      lineOf(root, 'b', 'c', 0),
      lineOf(root, 'b', 'c', 1),
    ],
    [1, 2, 3, 3, 4],
  )
})

test('JSON is read as well', () => {
  const root = parseConfigDocument('{\n\t"ca": {\n\t\t"plugin": "embedded"\n\t}\n}\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(plain(root))), { ca: { plugin: 'embedded' } })
  assert.equal(lineOf(root, 'ca', 'plugin'), 3)
})

test('objects have no prototype', () => {
  const root = parseConfigDocument('a: { b: 1 }', 'f')
  const value = plain(root)
  assert.ok(isTreeObject(value) && isTreeObject(value['a']))
  assert.equal(Object.getPrototypeOf(value), null)
  assert.equal(Object.getPrototypeOf(value['a']), null)
})

for (const key of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
  test(`the key ${key} is refused wherever it occurs`, () => {
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
  const root = parseConfigDocument('a: &x [1, 2]\nb: *x\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(plain(root))), { a: [1, 2], b: [1, 2] })
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

test('an alias means the last node before it that has its anchor, and one without is refused', () => {
  const root = parseConfigDocument('a: &x { b: &x 1, c: *x }\nd: *x\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(plain(root))), { a: { b: 1, c: 1 }, d: 1 })
  assert.equal(
    messageOf('a:\n  - *x\nb: &x 1\n'),
    '/x/livery.yaml:2: a[0]: *x names no anchor before it. Write the anchor first.',
  )
})

const REPEATED: Readonly<Record<string, (bytes: number) => string>> = {
  aliases: bytes => `a: &a 1\nb:\n${'  - *a\n'.repeat(bytes / 7)}`,
  'aliases without an anchor': bytes => `[${'*a,'.repeat(bytes / 3)}]`,
  'anchors with an alias each': bytes => `b:\n${counted(bytes / 24, i => `  - &a${i} 1\n  - *a${i}\n`)}`,
  'merge keys': bytes => `a: &a {x: 1}\nb:\n${'  - {<<: *a}\n'.repeat(bytes / 13)}`,
  keys: bytes => counted(bytes / 12, i => `key${i}: 1\n`),
  'keys in braces': bytes => `{${counted(bytes / 12, i => `key${i}: 1,`)}}`,
  'keys that are lists': bytes => '? [a]\n: 1\n'.repeat(bytes / 10),
  'long paths': bytes => `${'k'.repeat(250)}:\n`.repeat(1) + '  - 1\n'.repeat(bytes / 6),
  commas: bytes => `[${','.repeat(bytes)}]`,
  quotes: bytes => '"'.repeat(bytes),
  brackets: bytes => '['.repeat(bytes),
}

function counted(count: number, part: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => part(index)).join('')
}

// Quadratic in the length, the first of them took 37 s for 48 kB. The CPU's time does not depend on how busy the machine is.
for (const [what, textOf] of Object.entries(REPEATED))
  test(`${what} are parsed in time linear to their length, and a fault is reported once or a few times`, () => {
    const text = textOf(256 * 1024)
    const before = process.threadCpuUsage()
    try {
      parseConfigDocument(text, 'f')
    } catch (error) {
      assert.ok(error instanceof ConfigError)
      assert.ok(error.problems.length <= 20 && error.message.length < 4_000)
    }
    const { user, system } = process.threadCpuUsage(before)
    assert.ok(user + system < 5_000_000, `${user + system} µs of the CPU`)
  })

test('a key that is long is refused before it is part of many paths', () => {
  assert.match(messageOf(`${'k'.repeat(1000)}: [${'1,'.repeat(1000)}]`), /has a key of 1000 characters/)
})

test('a long file is parsed beside the event loop, and is the same', async () => {
  const file = write('long.yaml', `a: { b: [${'x, '.repeat(30_000)}] }`)
  let turns = 0
  let isRead = false
  const reading = readDocument(file).finally(() => {
    isRead = true
  })
  while (!isRead) {
    await new Promise(resolve => setImmediate(resolve))
    turns += 1
  }
  const { root } = await reading
  assert.ok(turns > 20, `${turns} turns of the event loop`)
  const value = plain(root)
  assert.ok(isTreeObject(value) && Object.getPrototypeOf(value) === null)
  const inner = value['a']
  assert.ok(isTreeObject(inner) && Object.getPrototypeOf(inner) === null && Array.isArray(inner['b']))
  assert.equal(inner['b'].length, 30_000)
  assert.equal(lineOf(root, 'a', 'b', 29_999), 1)
})

test('a fault in a long file is reported as in a short one, and an end of the wait ends the thread', async () => {
  const file = write('faulty.yaml', `${'# a comment\n'.repeat(1_000)}a: *x\n`)
  await assert.rejects(readDocument(file), (error: unknown) => {
    assert.ok(error instanceof ConfigError)
    assert.match(error.message, /faulty\.yaml:1001: a: \*x names no anchor before it\. Write the anchor first\.$/)
    return true
  })
  const reason = new Error('the agent is shutting down')
  await assert.rejects(readDocument(file, AbortSignal.abort(reason)), error => (error as Error).cause === reason)
})

test('an alias to its own parent ends in an error, not in a loop', () => {
  assert.match(messageOf('a: &x\n  b: *x\n'), /nested deeper than 16 levels/)
})

test('a merge key is a key like any other, and so nothing that Livery knows', () => {
  const root = parseConfigDocument('a: &x { b: 1 }\nc:\n  <<: *x\n', 'f')
  assert.deepEqual(JSON.parse(JSON.stringify(plain(root))), { a: { b: 1 }, c: { '<<': { b: 1 } } })
})

test('tabs, open quotes, unknown tags and second documents are named with their line', () => {
  assert.match(messageOf('ca:\n\tplugin: x\n'), /:2: cannot be read as YAML: .*[Tt]ab/)
  assert.match(messageOf('a: 1\nb: "x\n'), /:[23]: cannot be read as YAML: .*quote/)
  assert.match(messageOf('a: { b: 1\nc: 2\n'), /must be sufficiently indented and end with a }\. Check/)
  assert.match(messageOf('a: !secret x\n'), /:1: cannot be read as YAML: .*!secret/)
  assert.match(messageOf('a: 1\n---\nb: 2\n'), /multiple documents/)
})

test('a file that is missing, a directory, too big or not text is refused with the reason', async () => {
  await assert.rejects(readDocument(join(directory, 'none')), /none: the file does not exist\. Check the path\./)
  await assert.rejects(readDocument(directory), /is not a regular file\. Name a YAML or JSON file\./)
  await assert.rejects(
    readDocument(write('big', Buffer.alloc(10 * 1024 * 1024, 'a: 1\n'))),
    /is 10485760 bytes, more than the 4194304 allowed/,
  )
  await assert.rejects(readDocument(write('latin1', Buffer.from([0x61, 0x3a, 0x20, 0xff]))), /is not UTF-8 text/)
})

test('a FIFO is refused, and not waited for', async () => {
  const fifo = join(directory, 'fifo')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  await assert.rejects(readDocument(fifo), /is not a regular file/)
  assert.match(contentDigest(fifo), /^[0-9a-f]{64}$/)
})

test('the digest differs between contents, and between a present and a missing file', async () => {
  const [a, b] = [write('a.yaml', 'x: 1'), write('b.yaml', 'x: 1 ')]
  assert.equal((await readDocument(a)).digest, contentDigest(a))
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

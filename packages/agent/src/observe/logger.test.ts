import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, createReadStream, openSync, readFileSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { temporaryFolder } from '@livery/test-support'

const directory = temporaryFolder({ after })

const LOGGER = new URL('./logger.ts', import.meta.url).href

/** Runs `code` with a logger in a separate process, whose standard error is `stderr`; resolves with its output. */
async function run(code: string, stderr: number, format = 'json'): Promise<string> {
  const script = `import { createLogger } from ${JSON.stringify(LOGGER)}
    const sink = await createLogger({ level: 'info', format: ${JSON.stringify(format)} })
    const { logger } = sink
    ${code}
    await sink[Symbol.asyncDispose]()`
  const args = ['--conditions=@livery/source', '--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', stderr], env: { PATH: process.env['PATH'] } })
  let out = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  const [exitCode] = await once(child, 'close')
  assert.equal(exitCode, 0)
  return out
}

async function logged(code: string, format = 'json'): Promise<string> {
  const file = join(directory, 'log')
  const handle = openSync(file, 'w')
  try {
    await run(code, handle, format)
  } finally {
    closeSync(handle)
  }
  return readFileSync(file, 'utf8')
}

test('a line is one JSON object with level, ISO time and message, and the last one is not lost', async () => {
  const lines = (await logged(`for (let i = 0; i < 1000; i++) logger.info({ i }, 'line')`)).trimEnd().split('\n')
  assert.equal(lines.length, 1_000)
  const last: { readonly time: string } = JSON.parse(lines.at(-1) ?? '')
  assert.deepEqual({ ...last, time: '' }, { level: 'info', time: '', i: 999, msg: 'line' })
  assert.equal(new Date(last.time).toISOString(), last.time)
})

test('a line that comes once the log ends is not written, and harms nobody', async () => {
  const text = await logged(`logger.info('in time')
    void sink[Symbol.asyncDispose]()
    logger.info('late')`)
  assert.deepEqual([text.includes('in time'), text.includes('late')], [true, false])
})

test('keys, tokens and headers are taken out by name, also one level down', async () => {
  const text = await logged(`
    logger.info({ token: 'S3', privateKey: 'S3', err: { authorization: 'S3' }, ca: { headers: { a: 'S3' }, token: 'S3' } })`)
  assert.doesNotMatch(text, /S3/)
  assert.match(text, /\[redacted\]/)
})

test('the pretty form is for people: the sentence, its resource, and where an error comes from', async () => {
  const text = await logged(
    `logger.warn({ event: 'x', resource: 'spiffe://a/b' }, 'careful'); logger.error({ err: new Error('why') }, 'bad')`,
    'pretty',
  )
  assert.match(text, /^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [+-]\d{4}\] .*WARN.*spiffe:\/\/a\/b: careful\n/)
  assert.match(text, /ERROR.*bad\nError: why\n {4}at /)
  // The stack has the path of this checkout.
  assert.doesNotMatch(text.replace(/^ {4}at .*$/gm, ''), /event/)
})

test('a reader that is stuck holds up neither the event loop nor the exit: lines are dropped and counted', async () => {
  const fifo = join(directory, 'fifo')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  const handle = openSync(fifo, constants.O_RDWR)
  try {
    const out = await run(
      `const line = 'x'.repeat(1000)
       let turns = 0
       for (; turns < 100; turns++) {
         for (let i = 0; i < 50; i++) logger.info(line)
         await new Promise(resolve => setImmediate(resolve))
       }
       console.log(turns, sink.dropped() > 0)`,
      handle,
    )
    assert.equal(out, '100 true\n')
  } finally {
    closeSync(handle)
  }
})

test('a reader that is back gets the number of dropped lines, and the queue stays within its bound', async () => {
  const fifo = join(directory, 'slow')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  const handle = openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK)
  const script = `import { createLogger } from ${JSON.stringify(LOGGER)}
    const sink = await createLogger({ level: 'info', format: 'json' })
    for (let i = 0; i < 5000; i++) sink.logger.info('x'.repeat(1000))
    console.log(sink.dropped())
    process.stdin.once('data', async () => {
      await sink[Symbol.asyncDispose]()
      process.exit()
    })`
  const args = ['--conditions=@livery/source', '--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', handle], env: { PATH: process.env['PATH'] } })
  try {
    const [printed] = await once(child.stdout ?? assert.fail(), 'data')
    const dropped = Number(printed)
    let text = ''
    const reported = Promise.withResolvers<void>()
    createReadStream(fifo, 'utf8').on('data', part => {
      text += part
      if (text.includes('log-lines-dropped')) reported.resolve()
    })
    await reported.promise
    const lines = text.trimEnd().split('\n')
    const last: { readonly lines: number } = JSON.parse(lines.at(-1) ?? '')
    assert.equal(last.lines, dropped)
    assert.equal(lines.length - 1 + dropped, 5_000)
    assert.ok(text.length < 1024 * 1024 + 1_000, `${text.length} bytes waited`)
  } finally {
    child.stdin?.end('end')
    await once(child, 'close')
    closeSync(handle)
  }
})

test('a reader that comes back to a named pipe gets the lines that waited for it', async () => {
  const fifo = join(directory, 'named')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK)
  const first = openSync(fifo, constants.O_WRONLY)
  const script = `import { createLogger } from ${JSON.stringify(LOGGER)}
    const sink = await createLogger({ level: 'info', format: 'json' })
    process.stdin.once('data', async () => {
      sink.logger.fatal('without a reader')
      await new Promise(resolve => setTimeout(resolve, 50))
      process.stdin.once('data', async () => {
        sink.logger.info('with one')
        await sink[Symbol.asyncDispose]()
        sink.logger.info('ignored')
        process.exit()
      })
      console.log('waits')
    })`
  const args = ['--conditions=@livery/source', '--input-type=module', '-e', script]
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', first], env: { PATH: process.env['PATH'] } })
  closeSync(first)
  closeSync(reader)
  child.stdin?.write('go')
  await once(child.stdout ?? assert.fail(), 'data')
  const second = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    child.stdin?.end('go')
    await once(child, 'close')
    const buffer = Buffer.alloc(4096)
    const text = buffer.toString('utf8', 0, readSync(second, buffer))
    assert.deepEqual(
      text
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line).msg),
      ['without a reader', 'with one'],
    )
  } finally {
    closeSync(second)
  }
})

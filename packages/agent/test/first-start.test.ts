/** The first `npm start` of a clone: it serves before the addon is built, and ends the build when it ends. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freePort } from '@livery/test-support'
import { hasCargo, pathWithoutCargo, shellEnvironment } from './command.ts'
import { fetchSecrets } from './sds-client.ts'
import { noCopy, WorkingCopy } from './working-copy.ts'

const noBuild = noCopy || (hasCargo() ? false : 'there is no cargo here, so nothing is built')
const onDemand = process.env['LIVERY_SLOW'] ? noBuild : 'it compiles for minutes: LIVERY_SLOW=1 runs it'
const noSlow = process.env['LIVERY_SLOW'] ? noCopy : 'it installs all dependencies: LIVERY_SLOW=1 runs it'
const notRoot = noCopy || (process.geteuid?.() === 0 ? false : 'needs root, to be without its rights')
/** Copies, installations and compilers, on a busy machine. */
const TIMEOUT_MS = 900_000
const LOG = 'addon-build.log'

/** `npm start` in its own process group, as in a terminal, with an admin endpoint that no other agent has. */
function start(copy: WorkingCopy) {
  const config = join(copy.path, 'livery.yaml')
  writeFileSync(config, readFileSync(config, 'utf8').replace('127.0.0.1:15100', '127.0.0.1:0'))
  return copy.start('npm', ['start'], shellEnvironment())
}

/** Resolves when the compiler has reported its first crate. */
async function compiling(copy: WorkingCopy): Promise<void> {
  const log = join(copy.path, '.cache', LOG)
  const { promise, resolve } = Promise.withResolvers<void>()
  const look = (): void => {
    if (existsSync(log) && /Compiling/.test(readFileSync(log, 'utf8'))) resolve()
  }
  using _watcher = closing(watch(join(copy.path, '.cache'), look))
  look()
  await promise
}

function closing(watcher: { close(): void }): Disposable {
  return { [Symbol.dispose]: () => watcher.close() }
}

/** Programs of the copy end after the signal that their group got; a turn of the event loop between two looks. */
async function allEnded(copy: WorkingCopy, { signal }: TestContext): Promise<void> {
  while (copy.processes().length > 0) {
    signal.throwIfAborted()
    await new Promise(setImmediate)
  }
}

function addons(copy: WorkingCopy): readonly string[] {
  return readdirSync(join(copy.path, 'packages', 'native-keygen')).filter(name => name.endsWith('.node'))
}

test('npm start answers on WebCrypto while the addon is built, and Ctrl-C ends both', {
  skip: noBuild,
  timeout: TIMEOUT_MS,
}, async t => {
  using copy = new WorkingCopy()
  await using agent = start(copy)
  await agent.line(/livery setup: building the native addon in the background, for the next start; .* WebCrypto/)
  await agent.line(
    /Cannot load the native key generator: .* The setup is building it in the background: restart the agent/,
  )
  await agent.line(/livery .* serves/)
  const [secret] = await fetchSecrets(join(copy.path, '.livery', 'run', 'web.sock'), ['default'])
  const leaf = new X509Certificate(secret?.certificateChain ?? '')
  assert.equal(leaf.subjectAltName, 'URI:spiffe://cluster.local/ns/default/sa/web')
  await compiling(copy)
  assert.deepEqual(addons(copy), [])

  agent.killGroup('SIGINT')
  await agent.ended
  // Whether npm passes the signal on as well, for which the agent does not drain, is a race.
  assert.match(agent.output, /SIGINT: draining/)
  await allEnded(copy, t)
  assert.deepEqual(addons(copy), [])
  assert.deepEqual(
    readdirSync(join(copy.path, '.cache')).filter(name => name.startsWith('addon-')),
    [LOG],
  )
})

test('an agent that is killed takes the build of the addon along', { skip: noBuild, timeout: TIMEOUT_MS }, async t => {
  using copy = new WorkingCopy()
  await using agent = start(copy)
  await agent.line(/livery .* serves/)
  await compiling(copy)
  agent.killGroup('SIGKILL')
  await agent.ended
  await allEnded(copy, t)
})

test('Ctrl-C ends a build in the foreground', { skip: noBuild, timeout: TIMEOUT_MS }, async t => {
  using copy = new WorkingCopy()
  await using build = copy.start('npm', ['run', 'native'], shellEnvironment())
  await build.line(/Compiling/)
  build.killGroup('SIGINT')
  await build.ended
  await allEnded(copy, t)
  assert.deepEqual(addons(copy), [])
})

test('the second start uses the addon that the first has built', { skip: onDemand, timeout: TIMEOUT_MS }, async t => {
  using copy = new WorkingCopy()
  {
    await using agent = start(copy)
    await agent.line(/livery setup: the native addon is built: the next start uses it/)
    assert.equal(addons(copy).length, 1)
    agent.killGroup('SIGINT')
    await agent.ended
  }
  await using agent = start(copy)
  await agent.line(/livery .* serves/)
  assert.doesNotMatch(agent.output, /WebCrypto|livery setup/)
  agent.killGroup('SIGINT')
  await agent.ended
  await allEnded(copy, t)
})

test('without a registry and with no cache the setup gives up and names the remedies', {
  skip: noCopy,
}, async () => {
  using copy = new WorkingCopy({ dependencies: false })
  const registry = `http://127.0.0.1:${await freePort()}`
  await using setup = copy.start('npm', ['start'], {
    ...shellEnvironment(),
    npm_config_registry: registry,
    HTTPS_PROXY: registry,
    // A path that nobody can make, as in a home that is read-only.
    npm_config_cache: join(copy.path, 'package.json', 'cache'),
  })
  assert.equal(await setup.code(), 1)
  assert.match(setup.output, /this user cannot write to the npm cache .*: npm uses .*\.cache\/npm/)
  assert.match(setup.output, /ECONNREFUSED/)
  assert.match(
    setup.output,
    /livery setup: `npm ci` failed: .* correct or unset HTTPS_PROXY.* Run this with access to the npm registry, or once with it/,
  )
})

/** In place of `npm ci`: it leaves half an installation, and does not end by a signal. */
const STUBBORN_NPM = `#!/bin/sh
trap '' INT TERM
mkdir -p node_modules/.bin
echo half installed
while :; do sleep 1; done
`

test('Ctrl-C in npm ci ends the setup after npm has ended, and the next start installs again', {
  skip: noCopy,
}, async t => {
  using copy = new WorkingCopy({ dependencies: false })
  const programs = join(copy.path, 'programs')
  mkdirSync(programs)
  writeFileSync(join(programs, 'npm'), STUBBORN_NPM, { mode: 0o755 })
  const env = shellEnvironment(`${programs}:${process.env['PATH']}`)
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    await using setup = copy.start(process.execPath, ['scripts/bootstrap.mjs'], env)
    await setup.line(/half installed/)
    if (signal === 'SIGKILL') for (const pid of copy.processes()) process.kill(pid, signal)
    else setup.killGroup(signal)
    assert.equal(await setup.code(), signal === 'SIGINT' ? 130 : null, setup.output)
    await allEnded(copy, t)
  }
})

test('another user than the owner of the clone is told so, before anything is tried', { skip: notRoot }, async () => {
  using copy = new WorkingCopy({ dependencies: false })
  const bootstrap = join(copy.path, 'scripts', 'bootstrap.mjs')
  // Without the rights of root over files, in place of a user who perhaps cannot read this repository.
  const words = ['--bounding-set=-all', '--inh-caps=-all', process.execPath, bootstrap]
  chmodSync(copy.path, 0o555)
  await using setup = copy.start('setpriv', words, shellEnvironment())
  assert.equal(await setup.code(), 1)
  assert.match(setup.output, /^livery setup: this user cannot write to \S+: run this as the owner/)
})

test('with a warm npm cache the setup needs no network', { skip: noSlow, timeout: TIMEOUT_MS }, async t => {
  using copy = new WorkingCopy({ dependencies: false })
  await using cached = copy.start('npm', ['ci', '--offline', '--no-audit', '--no-fund'], shellEnvironment())
  if ((await cached.code()) !== 0) return t.skip('the npm cache of this machine does not hold the lockfile')
  rmSync(join(copy.path, 'node_modules'), { recursive: true })
  // A proxy that nobody runs: the name of the registry, under which npm caches, stays.
  const proxy = `http://127.0.0.1:${await freePort()}`
  await using setup = copy.start('node', ['scripts/bootstrap.mjs', '--serve-first'], {
    ...shellEnvironment(pathWithoutCargo() ?? ''),
    ...Object.fromEntries(
      ['http_proxy', 'https_proxy', 'npm_config_proxy', 'npm_config_https_proxy'].map(name => [name, proxy]),
    ),
    no_proxy: '',
    npm_config_noproxy: '',
  })
  assert.equal(await setup.code(), 0, setup.output)
})

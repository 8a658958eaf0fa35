/** The packages as published: every package is packed, installed into an empty prefix, imported by each of its names, and run. */
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { blocksOf } from './papers.ts'
import { fetchSecrets } from './sds-client.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const LICENCE = readFileSync(join(root, 'LICENSE'), 'utf8')
const NODE_FLAGS = ['--input-type=module', '--eval']

interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
  readonly files: readonly string[]
  readonly keywords: readonly string[]
  readonly homepage: string
  readonly bugs: string
  readonly repository: { readonly type: string; readonly url: string; readonly directory: string }
  readonly publishConfig: Readonly<Record<string, unknown>>
}

const folder = temporaryFolder({ after })
const tarballs = join(folder, 'tarballs')
const modules = join(folder, 'prefix', 'lib', 'node_modules')

async function succeed(command: string, args: readonly string[], cwd: string): Promise<string> {
  await using running = new Command(command, args, { cwd, env: shellEnvironment() })
  assert.equal(await running.code(), 0, running.output)
  return running.output
}

/** Of the packages that are published. */
function manifests(): readonly Manifest[] {
  const all = globSync(join(root, 'packages', '*', 'package.json')).map(
    (path): Manifest => JSON.parse(readFileSync(path, 'utf8')),
  )
  return all.filter(manifest => !manifest.private)
}

/** Installed ones of ours, that of this platform included where an addon is built. */
function installed(): readonly string[] {
  return readdirSync(join(modules, '@livery')).map(name => join(modules, '@livery', name))
}

// The tests below look at what this one leaves.
test('the packages install into an empty prefix', { timeout: 600_000 }, async () => {
  await succeed(process.execPath, ['scripts/pack.mjs', '--out', tarballs], root)
  const files = readdirSync(tarballs).map(name => join(tarballs, name))
  const flags = ['--global', '--prefix', join(folder, 'prefix'), '--prefer-offline', '--no-audit', '--no-fund']
  // `@livery/core/testing` needs them; its users install them, the agent's do not.
  const peers = manifests().flatMap(({ peerDependencies = {} }) => Object.entries(peerDependencies))
  const named = peers.map(([name, range]) => `${name}@${range}`)
  await succeed('npm', ['install', ...flags, ...files, ...named], folder)
})

test('a package has what the registry asks for, and nothing that is not for users', () => {
  const [first] = manifests()
  assert.ok(first)
  for (const { name, version, files, keywords, homepage, bugs, repository, publishConfig } of manifests()) {
    const path = join('packages', basename(name))
    assert.deepEqual(repository, { ...first.repository, directory: path })
    assert.match(repository.url, /^git\+https:\/\/.*\.git$/)
    assert.ok(
      homepage.startsWith(repository.url.slice('git+'.length, -'.git'.length)) && homepage.includes(path),
      homepage,
    )
    assert.equal(bugs, first.bugs)
    assert.ok(keywords.length > 3 && files.includes('dist'), name)
    assert.deepEqual(publishConfig, { access: 'public', provenance: true })
    assert.equal(version, first.version)
  }
})

test('each tarball holds the licence, and neither sources nor tests', () => {
  assert.ok(installed().length >= manifests().length)
  for (const path of installed()) {
    assert.equal(readFileSync(join(path, 'LICENSE'), 'utf8'), LICENCE)
    const strays = globSync('**/*', { cwd: path, exclude: ['node_modules', 'dist/template'] }).filter(file =>
      /\.test\.|^src\/|^rust\/|\.tsbuildinfo$/.test(file),
    )
    assert.deepEqual(strays, [], path)
  }
})

test('man finds the page of the program', () => {
  assert.ok(existsSync(join(folder, 'prefix', 'share', 'man', 'man1', 'livery.1')))
})

test('docs/start/install.md: its ```sh blocks start the installed agent, and the unit is where they copy it from', async () => {
  const place = mkdtempSync(join(folder, 'home-'))
  const [configuration] = blocksOf('docs/start/install.md', 'yaml')
  writeFileSync(join(place, 'livery.yaml'), configuration?.text ?? '')
  const blocks = blocksOf('docs/start/install.md', 'sh')
  const typed = blocks.filter(({ mark }) => mark === '').map(({ text }) => text)
  const path = `${join(folder, 'prefix', 'bin')}:${dirname(process.execPath)}:${process.env['PATH']}`
  const env = { ...shellEnvironment(path), HOME: place, npm_config_prefix: join(folder, 'prefix') }
  const script = ['set -m -e -o pipefail', 'trap "kill %1 && wait %1" EXIT', ...typed].join('\n')
  await using shell = new Command('bash', ['-c', script], { cwd: place, env })
  assert.equal(await shell.code(), 0, shell.output)
  for (const pattern of [/plugin: embedded/, /livery .* serves/, /sa\/web +Available/, /^ok +agent/m])
    assert.match(shell.output, pattern)
  const copied = blocks.flatMap(({ text }) => /^cp (\S+npm root.*) \/etc\/systemd/m.exec(text)?.[1] ?? [])
  await using unit = new Command('bash', ['-c', `cat ${copied.join(' ')}`], { cwd: place, env })
  assert.equal(await unit.code(), 0, unit.output)
  assert.match(unit.output, /^ExecStart=livery run/m)
})

test('the agent has the page of its admin endpoint, with the licences of the libraries in it', () => {
  const page = join(modules, '@livery', 'agent', 'page-dist')
  assert.deepEqual(readdirSync(page).sort(), ['app.css', 'app.js', 'index.html', 'licences.txt'])
})

test('the program is bundled, with the licences of the libraries in it', () => {
  const bundle = join(modules, '@livery', 'agent', 'dist', 'bundle')
  const licences = readFileSync(join(bundle, 'licences.txt'), 'utf8')
  const headings = new Set(licences.match(/^@?[\w./-]+ \d[\w.-]*$/gm))
  // esbuild writes the file of each module above its code.
  const code = readdirSync(bundle).map(file => readFileSync(join(bundle, file), 'utf8'))
  const folders = new Set(
    code.flatMap(text => text.match(/^ *\/\/ .*node_modules\/(?:@[^/\n]+\/)?[^/\n]+(?=\/)/gm) ?? []),
  )
  assert.ok(folders.size > 20, `${folders.size}`)
  for (const folder of folders) {
    const name = folder.slice(folder.lastIndexOf('node_modules/') + 'node_modules/'.length)
    assert.ok(
      [...headings].some(heading => heading.startsWith(`${name} `)),
      name,
    )
  }
  // A library has its licence in a file, or in comments of its code, which the bundle does not have.
  for (const part of licences.split(/^(?=@?[\w./-]+ \d[\w.-]*\n\nSPDX: )/m)) {
    const [heading, , ...texts] = part.split('\n\n')
    assert.match(texts.join('\n\n'), /copyright/i, `${heading} has no licence`)
  }
})

test('what the bundle finds from its own place is in the package', () => {
  const dist = join(modules, '@livery', 'agent', 'dist')
  const bundle = join(dist, 'bundle')
  const named = readdirSync(bundle).flatMap(file => {
    const code = readFileSync(join(bundle, file), 'utf8')
    const paths = code.matchAll(/new URL\(["'`]([^"'`]+)["'`], importMeta\.url\)/g)
    return [...paths].map(([, path = '']) => path.replace(/\$\{.*\}$/, '.js'))
  })
  assert.ok(named.includes('../plugin/process-main.js') && named.includes('../../package.json'), named.join(' '))
  for (const path of named) {
    const place = join(bundle, path)
    assert.ok(existsSync(place), path)
    // A module that names the folder above its own means another one there.
    assert.notEqual(resolve(place), dist, path)
  }
})

test('beside the addon are the licences of what is linked into it', t => {
  const platform = installed().find(path => globSync(join(path, '*.node')).length > 0)
  if (platform === undefined) return t.skip('no addon is built here')
  const notices = readFileSync(join(platform, 'THIRD-PARTY-NOTICES.md'), 'utf8')
  const locked = readFileSync(join(root, 'Cargo.lock'), 'utf8')
  for (const name of ['aws-lc-rs', 'aws-lc-sys', 'napi', 'x509-cert', 'zeroize']) {
    const version = new RegExp(`name = "${name}"\\nversion = "(.*)"`).exec(locked)?.[1]
    assert.ok(notices.includes(`- ${name} ${version}`), `${name} ${version} is missing: npm run notices`)
  }
  assert.match(notices, /Eric Young/)
})

test('every name in the exports can be imported', async () => {
  const names = manifests().flatMap(({ name, exports }) =>
    Object.keys(exports)
      .filter(path => !path.endsWith('.json'))
      .map(path => name + path.slice(1)),
  )
  const script = `for (const name of ${JSON.stringify(names)}) {
    if (Object.keys(await import(name)).length === 0) throw new Error(name + ' exports nothing')
  }`
  await succeed(process.execPath, [...NODE_FLAGS, script], join(modules, '..'))
})

/** What the installed program writes while it issues and serves an identity; `keys` in its configuration, beside the others. */
async function outputOfServing(name: string, keys = ''): Promise<string> {
  const place = mkdtempSync(join(folder, `${name}-`))
  const config = join(place, 'livery.yaml')
  const identity = 'spiffe://cluster.local/ns/default/sa/api'
  writeFileSync(
    config,
    `ca: { plugin: embedded, directory: ca }
identities: [{ id: "${identity}", socket: run/api.sock }]
admin: { address: "127.0.0.1:0" }
${keys}
`,
  )
  const program = join(folder, 'prefix', 'bin', 'livery')
  await using agent = new Command(process.execPath, [program, 'run', '--config', config], {
    cwd: tmpdir(),
    env: shellEnvironment(),
  })
  await agent.line(/livery .* serves/)
  const [secret] = await fetchSecrets(join(place, 'run', 'api.sock'), ['default'])
  const leaf = new X509Certificate(secret?.certificateChain ?? '')
  assert.equal(leaf.subjectAltName, `URI:${identity}`)
  agent.killGroup('SIGTERM')
  assert.equal(await agent.code(), 0, agent.output)
  return agent.output
}

function installedAddons(): readonly string[] {
  return installed().flatMap(path => globSync(join(path, '*.node')))
}

test('the installed program serves an identity', async () => {
  const output = await outputOfServing('native')
  assert.match(output, installedAddons().length > 0 ? /keys: ecdsa-p256, native/ : /keys: ecdsa-p256, webcrypto/)
})

test('the installed program serves an identity without the addon, and logs for people', async () => {
  const addons = installedAddons()
  for (const path of addons) renameSync(path, `${path}.absent`)
  try {
    const output = await outputOfServing('webcrypto', 'log: { format: pretty }')
    assert.match(output, /^\[\d{4}-.* INFO: livery .* keys: ecdsa-p256, webcrypto/m)
  } finally {
    for (const path of addons) renameSync(`${path}.absent`, path)
  }
})

test('the installed program keeps its compiled code where nobody else can write, and nowhere else', {
  timeout: 120_000,
}, async () => {
  const agent = join(modules, '@livery', 'agent')
  const cache = join(agent, '.cache', 'compiled')
  // By its name, by which a shell starts it, and by Node.
  for (const launcher of [[], [process.execPath]]) {
    const isTaken = async (): Promise<boolean> => TAKEN.test(await outputOfVersion(launcher))
    rmSync(cache, { recursive: true, force: true })
    assert.ok(!(await isTaken()))
    await keepCompiledCode(launcher)
    assert.ok(await isTaken())
    for (const variables of [{ NODE_COMPILE_CACHE: '' }, { NODE_DISABLE_COMPILE_CACHE: '1' }] as const)
      assert.doesNotMatch(await outputOfVersion(launcher, variables), TAKEN)
    const [file = ''] = globSync(join(cache, 'program-*'))
    assert.deepEqual([statSync(cache).mode & 0o777, statSync(file).mode & 0o777], [0o700, 0o600])
    chmodSync(cache, 0o777)
    assert.ok(!(await isTaken()))
    chmodSync(cache, 0o700)
    chmodSync(dirname(cache), 0o777)
    assert.ok(!(await isTaken()))
    chmodSync(dirname(cache), 0o700)
    renameSync(cache, `${cache}-of-others`)
    symlinkSync(`${cache}-of-others`, cache)
    assert.ok(!(await isTaken()))
    rmSync(cache)
    renameSync(`${cache}-of-others`, cache)
    assert.ok(await isTaken())
    const program = join(agent, 'dist', 'bundle', 'main.js')
    // V8 itself takes the code of a program of the same length, and damaged code.
    for (const [path, index] of [
      [program, readFileSync(program).indexOf('// ') + 3],
      [file, statSync(file).size - 9],
    ] as const) {
      flipBit(path, index)
      assert.ok(!(await isTaken()), path)
      flipBit(path, index)
    }
    assert.ok(await isTaken())
  }
})

test('an agent runs on where its compiled code cannot be kept, and leaves nothing of it', {
  timeout: 60_000,
}, async () => {
  const cache = mkdtempSync(join(folder, 'cache-'))
  const taken = join(cache, `program-${process.version}-${process.arch}`)
  mkdirSync(taken)
  const noFolder = join(cache, 'file')
  writeFileSync(noFolder, '')
  for (const NODE_COMPILE_CACHE of [cache, noFolder]) {
    await using agent = startAgent([], { NODE_COMPILE_CACHE })
    await agent.line(/the compiled code cannot be kept/)
  }
  assert.deepEqual(globSync(join(cache, 'program-*')), [taken])
})

const TAKEN = /the compiled code in \S+ is taken/

/** Changes one character, or changes it back. */
function flipBit(path: string, index: number): void {
  const bytes = readFileSync(path)
  bytes[index] = (bytes[index] ?? 0) ^ 1
  writeFileSync(path, bytes)
}

/** Runs an agent until it has kept what V8 compiled. */
async function keepCompiledCode(launcher: readonly string[]): Promise<void> {
  await using agent = startAgent(launcher)
  await agent.line(/the compiled code is kept in/)
}

/** A new folder with the configuration of an agent that needs nothing else. */
function agentFolder(): string {
  const place = mkdtempSync(join(folder, 'agent-'))
  const config = {
    ca: { plugin: 'embedded', directory: 'ca' },
    identities: [{ id: 'spiffe://cluster.local/api', socket: 'api.sock' }],
    admin: { address: '127.0.0.1:0' },
  }
  writeFileSync(join(place, 'livery.yaml'), JSON.stringify(config))
  return place
}

function startAgent(launcher: readonly string[], variables: Readonly<Record<string, string>> = {}): Command {
  return start([...launcher, join(folder, 'prefix', 'bin', 'livery'), 'run'], agentFolder(), variables)
}

/** With what it writes about its compiled code. */
async function outputOfVersion(
  launcher: readonly string[],
  variables: Readonly<Record<string, string>> = {},
): Promise<string> {
  const words = [...launcher, join(folder, 'prefix', 'bin', 'livery'), '--version']
  await using program = start(words, tmpdir(), variables)
  assert.equal(await program.code(), 0, program.output)
  return program.output
}

function start([command = '', ...words]: readonly string[], cwd: string, variables = {}): Command {
  const path = `${dirname(process.execPath)}:${process.env['PATH']}`
  return new Command(command, words, { cwd, env: { ...shellEnvironment(path), NODE_DEBUG: 'livery', ...variables } })
}

/** Command line and environment of the installed command when it serves, started by its name as a shell does. */
async function servingProcess(path: string, variables: Readonly<Record<string, string>> = {}) {
  const env = { ...shellEnvironment(path), ...variables }
  await using agent = new Command(join(folder, 'prefix', 'bin', 'livery'), ['run'], { cwd: agentFolder(), env })
  await agent.line(/livery .* serves/)
  const read = (file: string): string[] => readFileSync(`/proc/${agent.pid}/${file}`, 'utf8').split('\0')
  const found = { words: read('cmdline'), environment: read('environ') }
  agent.killGroup('SIGTERM')
  assert.equal(await agent.code(), 0, agent.output)
  return found
}

/** One list for the launcher and the image. */
const { NODE_OPTIONS }: { readonly NODE_OPTIONS: readonly string[] } = await import(
  new URL('../bin/node-options.js', import.meta.url).href
)
const noProc = process.platform === 'linux' ? false : 'needs /proc'

test('the installed command starts Node once, with its options', { skip: noProc }, async () => {
  const { words, environment } = await servingProcess(`${dirname(process.execPath)}:${process.env['PATH']}`)
  assert.deepEqual(words.slice(0, 6), ['node', ...NODE_OPTIONS, join(folder, 'prefix', 'bin', 'livery'), 'run'])
  assert.ok(environment.includes('MALLOC_ARENA_MAX=2'))
})

test("with its options V8 takes the compiled code of Node's own modules", async () => {
  const tag = (options: readonly string[]): Promise<string> =>
    succeed(process.execPath, [...options, '--print', 'v8.cachedDataVersionTag()'], tmpdir())
  assert.equal(await tag(NODE_OPTIONS), await tag([]))
  assert.notEqual(await tag(['--expose-gc']), await tag([]))
})

test('where the first Node refuses the options, a second start has them, and the environment of the user', {
  skip: noProc,
}, async () => {
  const old = mkdtempSync(join(folder, 'old-'))
  const refusing = `#!/bin/sh\n[ "$1" != ${NODE_OPTIONS[0]} ] || exit 9\nexec '${process.execPath}' "$@"\n`
  writeFileSync(join(old, 'node'), refusing, { mode: 0o755 })
  const path = `${old}:${process.env['PATH']}`
  const { words, environment } = await servingProcess(path, { MALLOC_ARENA_MAX: '5' })
  const launcher = join(modules, '@livery', 'agent', 'bin', 'livery.js')
  assert.deepEqual(words.slice(0, 6), [process.execPath, ...NODE_OPTIONS, launcher, 'run'])
  assert.ok(environment.includes('MALLOC_ARENA_MAX=5'))
})

test('a Node whose HTTP/2 library does not end floods is refused, by its version', async () => {
  for (const version of ['22.22.0', '24.16.0', '25.9.0', '26.1.0']) {
    const { code, output } = await versionUnder(version)
    assert.equal(code, 1, version)
    assert.match(output, new RegExp(`Node ${version} is too old: it needs 24.17, 26.2 or newer`))
  }
  for (const version of ['24.17.0', '26.2.0', '27.0.0']) assert.equal((await versionUnder(version)).code, 0, version)
})

/** What `livery --version` ends with under this Node, if it were of another version. */
async function versionUnder(version: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const path = mkdtempSync(join(folder, 'node-'))
  const versions = { ...process.versions, node: version }
  const preload = `Object.defineProperty(process, 'versions', { value: ${JSON.stringify(versions)} })`
  writeFileSync(join(path, 'version.cjs'), preload)
  const renamed = `#!/bin/sh\nexec '${process.execPath}' --require '${join(path, 'version.cjs')}' "$@"\n`
  writeFileSync(join(path, 'node'), renamed, { mode: 0o755 })
  const env = shellEnvironment(`${path}:${process.env['PATH']}`)
  await using program = new Command(join(folder, 'prefix', 'bin', 'livery'), ['--version'], { cwd: tmpdir(), env })
  return { code: await program.code(), output: program.output }
}

for (const user of process.geteuid?.() === 0 ? [undefined, 65_534] : [undefined])
  test(`the installed program reads a long configuration, and shares its classes with a plugin of user ${user ?? 'agent'}`, async () => {
    const place = mkdtempSync(join(folder, 'plugin-'))
    for (const path of [folder, place]) chmodSync(path, 0o755)
    // Nothing is installed beside it: the agent gives it the core.
    writeFileSync(join(place, 'package.json'), '{}')
    writeFileSync(
      join(place, 'acme.mjs'),
      `import { CAError } from '@livery/core/plugin'
export const plugin = {
  apiVersion: 1,
  name: 'acme',
  capabilities: { roots: 'none', ttl: 'honoured', san: 'csr', keyTypes: ['ecdsa-p256'] },
  options: {},
  create: async () => ({
    issue: async () => { throw new CAError('denied', 'acme refuses') },
    async [Symbol.asyncDispose]() {},
  }),
}
`,
    )
    const config = join(place, 'livery.yaml')
    writeFileSync(
      config,
      `# ${'x'.repeat(5_000)}
ca: ${JSON.stringify({ plugin: './acme.mjs', user })}
identities: [{ id: "spiffe://cluster.local/api", socket: api.sock }]
admin: { address: "127.0.0.1:0" }
`,
    )
    const program = join(folder, 'prefix', 'bin', 'livery')
    await using agent = new Command(process.execPath, [program, 'run', '--config', config], {
      cwd: tmpdir(),
      env: shellEnvironment(),
    })
    await agent.line(/did not issue \(denied\): acme refuses/)
    await agent.line(/livery .* serves/)
    agent.killGroup('SIGTERM')
    assert.equal(await agent.code(), 0, agent.output)
  })

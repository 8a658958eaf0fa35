/** The commands of the pages in docs, word for word: each is run here or by another test, or a mark says what it needs. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freePort, temporaryFolder } from '@livery/test-support'
import { Command, shellEnvironment } from './command.ts'
import { LiveryProcess } from './livery-process.ts'
import { blocksOf, PAPERS, REPOSITORY, read } from './papers.ts'

/** `sh MARK`: what a machine for tests lacks. The page says it, too. */
const MARKS: Readonly<Record<string, string>> = {
  cargo: 'takes Rust and minutes',
  cluster: 'needs a cluster of Kubernetes',
  container: 'needs a container engine',
  home: 'changes the files of your shell',
  registry: 'installs from a registry',
  root: 'changes the machine, as root',
  slow: 'takes minutes',
  spire: 'needs a SPIRE server',
  vault: 'needs a Vault server',
}

/** By other tests, as they stand. */
const RUN_ELSEWHERE: readonly (readonly [papers: RegExp, test: string])[] = [
  [/^docs\/start\/install\.md$/, 'packed-packages.test.ts'],
  [/^docs\/start\/kubernetes\.md$/, 'kubernetes-guide.test.ts'],
  [/^docs\/run\/root-rotation\.md$/, 'root-rotation-guide.test.ts'],
  [/^docs\/run\/runbook\//, 'runbook.test.ts'],
]

/** Its commands are for a machine without an agent and without a file. */
const ALONE = 'docs/start/migrate-istio-agent.md'

/** Its commands start a CA and an agent. */
const LAPTOP = 'docs/start/two-nodes.md'

const isRunElsewhere = (paper: string): boolean => RUN_ELSEWHERE.some(([papers]) => papers.test(paper))
const plainOf = (paper: string): readonly string[] =>
  blocksOf(paper, 'sh').flatMap(({ mark, text }) => (mark === '' ? [text] : []))
/** The commands of these pages are for an agent with the first configuration of docs/start/install.md. */
const WITH_AGENT = PAPERS.filter(
  paper =>
    /^docs\//.test(paper) && ![ALONE, LAPTOP].includes(paper) && !isRunElsewhere(paper) && plainOf(paper).length > 0,
)

let agent: LiveryProcess | undefined
after(() => agent?.[Symbol.asyncDispose]())
const folder = temporaryFolder({ after })
const empty = temporaryFolder({ after })
before(async () => {
  const [configuration] = blocksOf('docs/start/install.md', 'yaml')
  assert.ok(configuration)
  writeFileSync(join(folder, 'livery.yaml'), configuration.text)
  agent = new LiveryProcess(['run'], { cwd: folder })
  await agent.line(/"event":"issued"/)
})

test('each command is run by a test, or marked by what it needs', () => {
  assert.ok(WITH_AGENT.length >= 3)
  for (const paper of PAPERS.filter(path => /^docs\/|^packages\/ca-plugins\/docs\//.test(path))) {
    for (const { mark } of blocksOf(paper, 'sh')) assert.ok(mark === '' || mark in MARKS, `${paper}: sh ${mark}`)
    const isRun = [...WITH_AGENT, ALONE, LAPTOP].includes(paper) || isRunElsewhere(paper)
    assert.ok(isRun || plainOf(paper).length === 0, `nothing runs the commands of ${paper}`)
  }
  for (const [, file] of RUN_ELSEWHERE) assert.ok(read(`packages/agent/test/${file}`).includes('```sh'), file)
})

/** The output of the commands of a page, each of which has to succeed. */
async function follow(paper: string, cwd: string): Promise<string> {
  const script = ['set -e -o pipefail', ...plainOf(paper)].join('\n')
  const env = shellEnvironment(`${REPOSITORY}node_modules/.bin:${process.env['PATH']}`)
  await using shell = new Command('bash', ['-c', script], { cwd, env })
  assert.equal(await shell.code(), 0, `${paper}\n${shell.output}`)
  return shell.output
}

/** What a reader has to see. */
const SHOWN: Readonly<Record<string, readonly RegExp[]>> = {
  'docs/understand/concepts.md': [
    /sa\/web: Available/,
    /issued: serial/,
    /cluster\.local: steady/,
    /web\.sock: listening/,
  ],
  'docs/reference/logs.md': [/^sds +debug$/m, /^ca +trace$|"ca":"trace"/m],
  'docs/start/clients.md': [
    /web\.sock: listening/,
    /Subject Alternative Name[\s\S]*spiffe:\/\/cluster\.local\/ns\/default\/sa\/web/,
  ],
}

for (const paper of WITH_AGENT)
  test(`${paper}: the commands do what the page says`, async () => {
    const output = await follow(paper, folder)
    for (const pattern of SHOWN[paper] ?? []) assert.match(output, pattern)
  })

test(`${ALONE}: the variables are a configuration, with their origins`, async () => {
  const output = await follow(ALONE, empty)
  assert.match(output, /^ttl: 12h +# .*SECRET_TTL/m)
  assert.match(output, /ratio: 0\.6 +# .*SECRET_GRACE_PERIOD_RATIO/)
  assert.match(output, /address: istiod\.istio-system\.svc:15012 +# .*CA_ADDR/)
})

test(`${LAPTOP}: two nodes on one laptop`, { timeout: 110_000 }, async ({ signal }) => {
  const [startCa = '', startNode = '', look = '', rotate = ''] = plainOf(LAPTOP)
  const ca = await freePort()
  const script = [
    'set -m -e -o pipefail',
    'trap "kill %1 %2 2>/dev/null || true" EXIT',
    startCa.replace('--dir ca &', `--dir ca --listen 127.0.0.1:${ca} &`),
    'until livery ca root --dir ca; do sleep 0.2; done',
    startNode,
    'until livery certs --config node-a.yaml | grep Available; do sleep 0.2; done',
    look,
    rotate
      .replace(
        'switch FINGERPRINT',
        'switch $(livery ca root --dir ca --json | node -p "JSON.parse(fs.readFileSync(0))[1].id")',
      )
      .replace(
        'remove FINGERPRINT',
        'remove $(livery ca root --dir ca --json | node -p "JSON.parse(fs.readFileSync(0))[0].id")',
      ),
    'livery ca root --dir ca',
  ]
  const commands = script.join('\n').replaceAll('npx livery', 'livery').replace('15012', `${ca}`)
  const env = shellEnvironment(`${REPOSITORY}node_modules/.bin:${process.env['PATH']}`)
  await using shell = new Command('bash', ['-c', commands], { cwd: empty, env })
  // Its trap ends the programs that it started.
  const stop = (): void => shell.killGroup('SIGTERM')
  signal.addEventListener('abort', stop)
  const code = await shell.code()
  signal.removeEventListener('abort', stop)
  assert.equal(code, 0, shell.output)
  assert.match(shell.output, /sa\/web +Available/)
  assert.match(shell.output, /sa\/api +Available/)
  assert.doesNotMatch(shell.output, /FINGERPRINT/)
})

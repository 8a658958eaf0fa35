/** The rules in deploy/prometheus and the dashboard in deploy/grafana: by promtool, and against the metrics of a running agent. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { parse, stringify } from 'yaml'
import { noTroubledNode, TroubledNode } from './troubled-node.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const prometheus = join(root, 'deploy/prometheus')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

const skip = spawnSync('promtool', ['--version']).error
  ? 'no promtool on PATH (it is in the package prometheus of Debian and Ubuntu)'
  : false

function promtool(args: readonly string[], input = ''): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { cwd: prometheus, input, encoding: 'utf8' })
  assert.equal(status, 0, stdout + stderr)
}

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
}

interface RuleTest {
  readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts: readonly object[] }[]
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const ruleFile: { readonly groups: readonly { readonly rules: readonly Rule[] }[] } = parse(
  read('deploy/prometheus/livery.rules.yaml'),
)
const rules = ruleFile.groups.flatMap(group => group.rules)
const { tests }: { readonly tests: readonly RuleTest[] } = parse(read('deploy/prometheus/livery.rules.test.yaml'))
const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(read('deploy/grafana/livery.json'))
const panels = dashboard.panels.filter(({ targets }) => targets !== undefined)
const queries = panels.flatMap(({ title, targets = [] }) => targets.map(target => ({ title, ...target })))

const onNode = { skip: noTroubledNode }

let scrape = ''
/** The labels of the samples of each metric; none of one that has no sample. */
const exported = new Map<string, Set<string>>()

before(async () => {
  if (noTroubledNode) return
  await using node = await TroubledNode.start()
  scrape = await node.metrics()
  for (const [, name = '', type] of scrape.matchAll(/^# TYPE (\S+) (\S+)$/gm))
    for (const suffix of type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''])
      exported.set(name + suffix, new Set())
  for (const [, name = '', labels = ''] of scrape.matchAll(/^([a-z_]+)(?:\{(.*)\})? \S+$/gm))
    for (const [, label = ''] of labels.matchAll(/(?:^|,)([a-z_]+)="/g)) exported.get(name)?.add(label)
})

test('promtool finds nothing wrong with the metrics of a running agent', { skip: skip || noTroubledNode }, () => {
  promtool(['check', 'metrics'], scrape)
})

test('the rules are valid, and pass their tests', { skip }, () => {
  promtool(['check', 'rules', '--lint=all', '--lint-fatal', 'livery.rules.yaml'])
  promtool(['test', 'rules', 'livery.rules.test.yaml'])
})

test('each alert has a test in which it fires, and one in which it does not', () => {
  const tested = tests.flatMap(({ alert_rule_test: each = [] }) => each)
  for (const { alert } of rules) {
    if (alert === undefined) continue
    const outcomes = tested
      .filter(({ alertname }) => alertname === alert)
      .map(({ exp_alerts: fired }) => fired.length > 0)
    assert.deepEqual([...new Set(outcomes)].sort(), [false, true], alert)
  }
})

/** An expression without its texts, matchers, ranges and lists of labels: its functions, operators and metrics. */
const bare = (expr: string): string =>
  expr
    .replace(/"[^"]*"/g, '')
    .replace(/\{[^}]*\}|\[[^\]]*\]/g, '')
    .replace(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, '')

const OPERATORS: ReadonlySet<string> = new Set(['and', 'or', 'unless', 'bool', 'offset'])

function metricsOf(expr: string): readonly string[] {
  const words = bare(expr).matchAll(/(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])/g)
  return Array.from(words, ([, word = '']) => word).filter(word => !OPERATORS.has(word))
}

/** The labels that an expression names: in matchers, and in lists of labels. */
function labelsOf(expr: string): readonly string[] {
  const text = expr.replace(/"[^"]*"/g, '')
  const matched = [...text.matchAll(/[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label)
  const lists = [...text.matchAll(/\b(?:by|without|on)\s*\(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(','))
  return [...matched, ...lists.map(label => label.trim()).filter(label => label !== '')]
}

const recorded = new Map(rules.map(({ record, expr }) => [record, expr]))
/** These come with the scrape, `le` with a histogram. */
const OF_THE_SCRAPE: ReadonlySet<string> = new Set(['job', 'instance', 'le'])

/** What is wrong with the names in an expression. */
function strangers(expr: string): readonly string[] {
  const metrics = metricsOf(expr)
  assert.ok(metrics.length > 0, expr)
  const unknown = metrics.filter(name => !exported.has(name) && !recorded.has(name))
  const known = metrics.flatMap(name => [...(exported.get(name) ?? [])])
  const hasSamples = metrics.every(name => recorded.has(name) || (exported.get(name)?.size ?? 0) > 0 || isPlain(name))
  const labels = hasSamples ? labelsOf(expr).filter(label => !known.includes(label) && !OF_THE_SCRAPE.has(label)) : []
  return [...unknown, ...labels]
}

/** Whether a metric has a sample without labels. */
function isPlain(name: string): boolean {
  return new RegExp(`^${name} `, 'm').test(scrape)
}

test('the rules name only metrics that the agent exports, and labels that these have', onNode, () => {
  for (const { alert, record, expr } of rules) assert.deepEqual(strangers(expr), [], alert ?? record)
})

test('the panels of the dashboard do, too', onNode, () => {
  assert.ok(queries.length > 30)
  for (const { title, expr, legendFormat } of queries) {
    assert.deepEqual(strangers(expr), [], title)
    const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = '']) => label)
    const known = new Set([...metricsOf(expr).flatMap(name => [...(exported.get(name) ?? [])]), ...labelsOf(expr)])
    assert.deepEqual(
      shown.filter(label => !known.has(label)),
      [],
      title,
    )
  }
})

test('the dashboard is what its description makes', () => {
  const { status, stderr } = spawnSync(process.execPath, [join(root, 'scripts/dashboard.mjs'), '--check'])
  assert.deepEqual([status, String(stderr)], [0, ''])
})

test('the queries of the dashboard are valid', { skip }, () => {
  const folder = temporaryFolder({ after })
  const all = queries.map(({ expr }, index) => ({
    record: `query:${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }))
  const file = join(folder, 'queries.yaml')
  writeFileSync(file, stringify({ groups: [{ name: 'dashboard', rules: all }] }))
  promtool(['check', 'rules', file])
})

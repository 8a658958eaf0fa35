// Writes the plain manifests in deploy/kubernetes, one file per example of the Helm chart, and the chart's copy of the rules for
// Prometheus: `npm run manifests`, which needs helm. `--check` writes nothing, and fails if one is not current.
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { root, say } from './setup-step.mjs'

const chart = join(root, 'deploy/helm/livery')
const folder = join(root, 'deploy/kubernetes')
const rules = join(root, 'deploy/prometheus/livery.rules.yaml')
/** A copy, since Helm reads no file outside the chart. */
const rulesOfChart = join(chart, 'rules/livery.rules.yaml')
const NAMESPACE = 'livery-system'
/** A helm that is built from its module has an old default version. */
const KUBERNETES = '1.36.0'

const examples = readdirSync(join(chart, 'examples'))
const stale = readable(folder).filter(name => !examples.includes(name))
for (const name of examples) if (read(join(folder, name)) !== manifest(name)) stale.push(name)
if (read(rulesOfChart) !== read(rules)) stale.push('the rules of the chart')

if (process.argv.includes('--check')) {
  if (stale.length > 0) say(`not current: ${stale.join(', ')}. Run npm run manifests`)
  process.exit(stale.length > 0 ? 1 : 0)
}
copyFileSync(rules, rulesOfChart)
mkdirSync(folder, { recursive: true })
for (const name of readable(folder)) rmSync(join(folder, name))
for (const name of examples) writeFileSync(join(folder, name), manifest(name))

function manifest(name) {
  const values = join(chart, 'examples', name)
  const options = ['--namespace', NAMESPACE, '--values', values, '--kube-version', KUBERNETES]
  const { stdout, stderr, status, error } = spawnSync('helm', ['template', 'livery', chart, ...options], {
    encoding: 'utf8',
  })
  if (status !== 0) {
    say(
      error
        ? `cannot start helm: ${error.message}. Install Helm 3, or add its folder to PATH`
        : `helm: ${stderr.trim()}`,
    )
    process.exit(1)
  }
  return `${heading(name)}${stdout}`
}

/** The namespace is not in the chart: it has to be made and labelled first. */
function heading(name) {
  const [about] = readFileSync(join(chart, 'examples', name), 'utf8').split('\n')
  return `# Made from the Helm chart by npm run manifests, with examples/${basename(name)}. Change that one.
${about}
apiVersion: v1
kind: Namespace
metadata:
  name: ${NAMESPACE}
  labels:
    # The agent mounts a folder of the node.
    pod-security.kubernetes.io/enforce: privileged
`
}

function read(path) {
  return existsSync(path) ? readFileSync(path, 'utf8') : undefined
}

function readable(path) {
  return existsSync(path) ? readdirSync(path) : []
}

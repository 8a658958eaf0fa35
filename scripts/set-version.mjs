// Moves the one version of all packages, the image and the chart, wherever it is written: `npm run set-version -- 0.2.0`.
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root, say } from './setup-step.mjs'

const MANIFESTS = ['package.json', 'benchmarks/package.json', 'packages/*/package.json', 'examples/*/package.json']
const NAMES_THE_IMAGE = ['deploy/kubernetes/*.yaml', 'docs/start/kubernetes.md']
const OURS = /^@livery\//

const [version = ''] = process.argv.slice(2)
if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) {
  say(`${JSON.stringify(version)} is not a version: write one such as 0.2.0 or 0.2.0-rc.1`)
  process.exit(2)
}

for (const file of globSync(MANIFESTS, { cwd: root })) rewrite(file, text => toJson(moved(JSON.parse(text))))
rewrite('package-lock.json', text => {
  const lockfile = JSON.parse(text)
  lockfile.version = version
  for (const [place, entry] of Object.entries(lockfile.packages))
    if (!place.includes('node_modules/')) lockfile.packages[place] = moved(entry)
  return toJson(lockfile)
})
rewrite('Cargo.toml', text => text.replace(/(\[workspace\.package\]\nversion = )".*"/, `$1"${version}"`))
rewrite('Cargo.lock', text => text.replace(/(name = "livery-[^"]*"\nversion = )".*"/g, `$1"${version}"`))
rewrite('deploy/helm/livery/Chart.yaml', text => text.replace(/^((?:v|appV)ersion: "?)[^"\n]+/gm, `$1${version}`))
for (const file of globSync(NAMES_THE_IMAGE, { cwd: root }))
  rewrite(file, text => text.replace(/(livery\/livery:|app\.kubernetes\.io\/version: ")\d[\w.-]*/g, `$1${version}`))
say(`all packages are ${version}: name it in CHANGELOG.md, commit, and push the tag v${version}`)

function moved(manifest) {
  for (const kind of ['dependencies', 'devDependencies', 'peerDependencies'])
    for (const name of Object.keys(manifest[kind] ?? {})) if (OURS.test(name)) manifest[kind][name] = version
  return { ...manifest, version }
}

function rewrite(file, change) {
  const path = join(root, file)
  writeFileSync(path, change(readFileSync(path, 'utf8')))
}

/** The layout that npm and Biome give a manifest. */
function toJson(value) {
  return `${JSON.stringify(value, undefined, 2)}\n`
}

// Builds the page of the admin endpoint into the folder that the agent serves and ships: `node packages/page/build.mjs`. Runs on the
// machine's own Node (18 or newer), as the set-up of the workspace does.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { licenceOf } from '../../scripts/licences.mjs'
import { fingerprint, isDone, root } from '../../scripts/setup-step.mjs'

const source = join(dirname(fileURLToPath(import.meta.url)), 'src')
const out = join(root, 'packages', 'agent', 'page-dist')
const stamp = join(root, '.cache', 'page-stamp')
/** The libraries that the result contains. */
const BUNDLED = ['preact', '@preact/signals', '@preact/signals-core']

/** Whether page-dist was built from these sources. */
export function isPageCurrent() {
  return existsSync(join(out, 'index.html')) && isDone(stamp, fingerprint(inputs()))
}

export async function buildPage() {
  // Computed first: a source that changes during the build makes the page stale.
  const wanted = fingerprint(inputs())
  // Lazy, since the set-up imports this before the dependencies are installed.
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    absWorkingDir: source,
    entryPoints: [
      { in: 'main.tsx', out: 'app' },
      { in: 'style.css', out: 'app' },
    ],
    outdir: out,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    write: false,
  })
  for (const folder of [out, dirname(stamp)]) mkdirSync(folder, { recursive: true })
  for (const { path, contents } of outputFiles) place(basename(path), contents)
  place('licences.txt', BUNDLED.map(name => licenceOf(join(root, 'node_modules', name))).join('\n'))
  place('index.html', readFileSync(join(source, 'index.html')))
  writeFileSync(stamp, wanted)
}

/** A rename ensures that a running agent never reads half of a file. */
function place(name, contents) {
  const partial = join(out, `.${name}.${process.pid}`)
  writeFileSync(partial, contents)
  renameSync(partial, join(out, name))
}

/** The inputs include all sources of the agent, since the page takes some. */
function inputs() {
  const folders = [source, join(root, 'packages', 'agent', 'src')]
  return [...folders.flatMap(filesBelow), fileURLToPath(import.meta.url), join(root, 'package-lock.json')].sort()
}

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .map(entry => join(entry.parentPath ?? entry.path, entry.name))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildPage()

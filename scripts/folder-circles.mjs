// Checks that the folders of each package, and of the page in the browser, import each other in one direction only. Names every import of a
// circle. A folder is the one that a file is in; tests may import from anywhere. `node scripts/folder-circles.mjs [ROOT]`, exit code 1 for a circle.
import { globSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsOf } from './folder-imports.mjs'

const root = resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)))
const sources = globSync(['packages/*/src', 'packages/agent/page'], { cwd: root }).sort()
const circles = sources.flatMap(source => circlesOf(importsAcrossFolders(source)))

for (const { file, line, target } of circles)
  console.error(`${file}:${line} imports ${target}, whose folder imports this one again`)
if (circles.length > 0) {
  console.error(`${circles.length} imports form circles of folders. Move what both folders need to the lower one.`)
  process.exitCode = 1
} else console.log(`no circle of folders in ${sources.join(', ')}`)

/** The imports from one folder of `source` to another. */
function importsAcrossFolders(source) {
  return importsOf(root, source).filter(
    ({ file, target }) => !target.startsWith('@') && dirname(target) !== dirname(file) && !target.includes('/gen/'),
  )
}

/** The imports whose target's folder leads back to the folder of the file. */
function circlesOf(imports) {
  const next = Map.groupBy(imports, ({ file }) => dirname(file))
  return imports.filter(({ file, target }) => reaches(next, dirname(target), dirname(file)))
}

function reaches(next, from, to, seen = new Set()) {
  if (from === to) return true
  if (seen.has(from)) return false
  seen.add(from)
  return (next.get(from) ?? []).some(({ target }) => reaches(next, dirname(target), to, seen))
}

// Checks that the folders of each package import each other in one direction only. Names every import of a circle. A folder is
// the one that a file is in; tests may import from anywhere. `node scripts/folder-circles.mjs [ROOT]`, exit code 1 for a circle.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const IMPORT =
  /^(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"](\.{1,2}\/[^'"]+)['"]|\bimport\(['"](\.{1,2}\/[^'"]+)['"]\)/gm

const root = resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)))
const sources = globSync('packages/*/src', { cwd: root }).sort()
const circles = sources.flatMap(source => circlesOf(importsOf(source)))

for (const { file, line, target } of circles)
  console.error(`${file}:${line} imports ${target}, whose folder imports this one again`)
if (circles.length > 0) {
  console.error(`${circles.length} imports form circles of folders. Move what both folders need to the lower one.`)
  process.exitCode = 1
} else console.log(`no circle of folders in ${sources.join(', ')}`)

/** Every import from one folder of `source` to another. */
function importsOf(source) {
  return globSync('**/*.ts', { cwd: join(root, source), exclude: name => name === 'gen' || name.endsWith('.test.ts') })
    .map(name => join(source, name))
    .flatMap(importsOfFile)
}

function importsOfFile(file) {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(IMPORT)].flatMap(match => {
    const target = join(dirname(file), match[1] ?? match[2])
    if (dirname(target) === dirname(file) || relative(dirname(file), target).includes('/gen/')) return []
    return [{ file, line: text.slice(0, match.index).split('\n').length, target }]
  })
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

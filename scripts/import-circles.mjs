// Checks that the files of each package import each other in one direction only, and so do their folders. Imports of types count. It
// names the shortest circle. Tests may import from anywhere, and generated code is left out.
// `node scripts/import-circles.mjs [ROOT]`, exit code 1 for a circle.
import { globSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { importsOf } from './folder-imports.mjs'

const root = resolve(process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url)))
const sources = globSync('packages/*/src', { cwd: root }).sort()
const imports = sources.flatMap(importsWithin)

for (const [places, placeOf] of [
  ['files', file => file],
  ['folders', dirname],
]) {
  const circle = shortestCircle(imports, placeOf)
  if (circle.length === 0) console.log(`no circle of ${places} in ${sources.join(', ')}`)
  else {
    for (const { file, line, target } of circle) console.error(`${file}:${line} imports ${target}`)
    console.error(`This is a circle of ${places}. Move what they share below them.`)
    process.exitCode = 1
  }
}

/** The imports within `source`. */
function importsWithin(source) {
  return importsOf(root, source).filter(({ target }) => !target.startsWith('@') && !target.includes('/gen/'))
}

/** The imports of the shortest circle in order, empty if there is none; `placeOf` gives the place of a file. */
function shortestCircle(imports, placeOf) {
  const across = imports.filter(({ file, target }) => placeOf(file) !== placeOf(target))
  const next = Map.groupBy(across, ({ file }) => placeOf(file))
  const circles = [...next.keys()].map(place => shortestWayBack(next, place, placeOf)).filter(way => way.length > 0)
  return circles.sort((a, b) => a.length - b.length)[0] ?? []
}

/** The way from `place` back to itself. */
function shortestWayBack(next, place, placeOf) {
  const ways = new Map([[place, []]])
  // Iterating a Map includes entries added meanwhile, so nearer places come first.
  for (const [at, way] of ways)
    for (const step of next.get(at) ?? []) {
      const to = placeOf(step.target)
      if (to === place) return [...way, step]
      if (!ways.has(to)) ways.set(to, [...way, step])
    }
  return []
}

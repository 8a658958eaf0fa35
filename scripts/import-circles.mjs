// Checks that the files of each package import each other in one direction only, and that their folders do.
// Imports of types count. Names the shortest circle that there is. A folder is the one that a file is in; tests may import from anywhere, and
// generated code is left out. `node scripts/import-circles.mjs [ROOT]`, exit code 1 for a circle.
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

/** The imports of `source` from itself. */
function importsWithin(source) {
  return importsOf(root, source).filter(({ target }) => !target.startsWith('@') && !target.includes('/gen/'))
}

/** Its imports in order, none if there is no circle; `placeOf` gives the place of a file. */
function shortestCircle(imports, placeOf) {
  const across = imports.filter(({ file, target }) => placeOf(file) !== placeOf(target))
  const next = Map.groupBy(across, ({ file }) => placeOf(file))
  const circles = [...next.keys()].map(place => shortestWayBack(next, place, placeOf)).filter(way => way.length > 0)
  return circles.sort((a, b) => a.length - b.length)[0] ?? []
}

/** From `place` to itself. */
function shortestWayBack(next, place, placeOf) {
  const ways = new Map([[place, []]])
  // A map goes on with what is added to it meanwhile: nearer places come first.
  for (const [at, way] of ways)
    for (const step of next.get(at) ?? []) {
      const to = placeOf(step.target)
      if (to === place) return [...way, step]
      if (!ways.has(to)) ways.set(to, [...way, step])
    }
  return []
}

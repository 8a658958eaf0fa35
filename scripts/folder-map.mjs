// The map of folders in ARCHITECTURE.md: compares it with the sources, or with --write draws it again. Names and arrows come from the
// folders and their imports, the descriptions from the map. `node scripts/folder-map.mjs [--write] [ROOT]`, exit code 1 for a wrong map.
import { globSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { importsOf } from './folder-imports.mjs'

const MAP = /(<!-- folders -->\n```text\n)([\s\S]*?)(```\n<!-- \/folders -->)/
const { values, positionals } = parseArgs({ options: { write: { type: 'boolean' } }, allowPositionals: true })
const root = resolve(positionals[0] ?? fileURLToPath(new URL('..', import.meta.url)))
const paper = join(root, 'ARCHITECTURE.md')
const text = readFileSync(paper, 'utf8')
const map = text.match(MAP)?.[2] ?? ''
const descriptions = descriptionsOf(map)
const packages = globSync('packages/*/src', { cwd: root }).map(source => basename(join(source, '..')))
const packageArrows = new Map(packages.map(name => [name, packagesImportedBy(name)]))
const drawn = byDepth(packageArrows).map(drawPackage).join('\n')

if (values.write)
  writeFileSync(
    paper,
    text.replace(MAP, (_, start, __, end) => start + drawn + end),
  )
const faults = [...missing(), ...(drawn === map || values.write ? [] : ['its names and arrows are out of date'])]
for (const fault of faults) console.error(`The map of folders in ARCHITECTURE.md: ${fault}.`)
if (faults.length > 0) {
  console.error('Run "npm run map", then describe each new folder in its row, with the folders below it by name.')
  process.exitCode = 1
}

/** A package with its folders: importing folders above imported ones. */
function drawPackage(name) {
  const source = join('packages', name, 'src')
  const arrows = new Map(foldersOf(name).map(folder => [folder, new Set()]))
  for (const { file, target } of importsOf(root, source)) {
    const [from, to] = [topFolder(source, file), topFolder(source, target)]
    if (from !== to && arrows.has(to)) arrows.get(from)?.add(to)
  }
  const rows = byDepth(arrows).map(folder => [
    `  ${folder}`,
    direct(arrows, folder),
    descriptions.get(`${name}/${folder}`),
  ])
  return table([[name, direct(packageArrows, name), descriptions.get(name)], ...rows])
}

function table(rows) {
  const widths = [0, 1].map(column => Math.max(...rows.map(row => row[column].length)))
  return rows
    .map(([name, arrows, description = '']) =>
      [name.padEnd(widths[0]), arrows.padEnd(widths[1]), description].join('  '),
    )
    .map(line => `${line.trimEnd()}\n`)
    .join('')
}

/** The text behind each name of the map, under `package` or `package/folder`. */
function descriptionsOf(map) {
  let owner = ''
  return new Map(
    map.split('\n').map(line => {
      const [name, ...rest] = line.trim().split(/ {2,}/)
      if (!line.startsWith(' ')) owner = name
      return [line.startsWith(' ') ? `${owner}/${name}` : name, rest.filter(part => !part.startsWith('→')).join(' ')]
    }),
  )
}

/** Folders that the map lacks: each at the top of `src` or `rust` needs a row, and each below a word in its row. */
function missing() {
  return packages.flatMap(name => {
    const rows = foldersOf(name).map(folder => [folder, descriptions.get(`${name}/${folder}`)])
    const below = globSync('src/*/*/', { cwd: join(root, 'packages', name), exclude: path => basename(path) === 'gen' })
    return [
      ...rows.filter(([, description]) => !description).map(([folder]) => `${name}/${folder} has no description`),
      ...below
        .map(path => path.split('/').slice(1, 3))
        .filter(([folder, inner]) => !descriptions.get(`${name}/${folder}`)?.includes(inner))
        .map(([folder, inner]) => `the row ${name}/${folder} does not name ${inner}`),
    ]
  })
}

/** The folders at the top of a package's sources, except generated code. */
function foldersOf(name) {
  const cwd = join(root, 'packages', name)
  return globSync(['src/*/', 'rust/*/'], { cwd })
    .filter(path => readdirSync(join(cwd, path)).length > 0) // git keeps no empty folder
    .map(path => relative('src', path).replace(/^\.\.\//, ''))
    .filter(folder => folder !== 'gen')
    .sort()
}

function packagesImportedBy(name) {
  const names = importsOf(root, join('packages', name, 'src')).map(
    ({ target }) => target.match(/^(?:@livery|packages)\/([\w-]+)/)?.[1],
  )
  return new Set(names.filter(other => other !== name && packages.includes(other)))
}

function topFolder(source, path) {
  return relative(source, path).split('/')[0]
}

/** The arrows from `name`, without those that other arrows already imply. */
function direct(arrows, name) {
  const targets = [...arrows.get(name)]
  const shown = targets.filter(target => !targets.some(other => other !== target && depths(arrows, other).has(target)))
  return shown.length === 0 ? '' : `→ ${shown.sort().join(' ')}`
}

/** Everything that `name` leads to, with the length of the longest way. There are no circles: `import-circles.mjs`. */
function depths(arrows, name, steps = 0, found = new Map()) {
  for (const target of arrows.get(name) ?? []) {
    found.set(target, Math.max(found.get(target) ?? 0, steps + 1))
    depths(arrows, target, steps + 1, found)
  }
  return found
}

function byDepth(arrows) {
  const height = name => Math.max(0, ...depths(arrows, name).values())
  return [...arrows.keys()].sort((a, b) => height(b) - height(a) || a.localeCompare(b))
}

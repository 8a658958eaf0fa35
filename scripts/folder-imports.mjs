// Reads the imports of a package's sources from their text, except tests and generated code.
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const IMPORT =
  /^(?:import|export)\s(?:[^'"]*?\sfrom\s)?['"](\.{1,2}\/[^'"]+|@livery\/[^'"]+)['"]|\bimport\(['"](\.{1,2}\/[^'"]+)['"]\)/gm

/** Every import of a file of ours below `source`, a path from `root`: the importing file, the line, and the target as a path or as the name of a package. */
export function importsOf(root, source) {
  return globSync('**/*.{ts,tsx}', {
    cwd: join(root, source),
    exclude: name => name === 'gen' || name.endsWith('.test.ts'),
  })
    .map(name => join(source, name))
    .flatMap(file => importsOfFile(root, file))
}

function importsOfFile(root, file) {
  const text = readFileSync(join(root, file), 'utf8')
  return [...text.matchAll(IMPORT)].map(match => {
    const name = match[1] ?? match[2]
    const line = text.slice(0, match.index).split('\n').length
    return { file, line, target: name.startsWith('@') ? name : join(dirname(file), name) }
  })
}

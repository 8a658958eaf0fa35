// Puts the example into the package as its template, so that there is one of it in the repository.
import { cpSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'

// The links of the README lead into this repository.
const NOT_SHIPPED = new Set(['dist', 'node_modules', 'package-lock.json', 'README.md'])

const template = join(import.meta.dirname, 'dist', 'template')
const example = join(import.meta.dirname, '..', '..', 'examples', 'ca-plugin')
rmSync(template, { recursive: true, force: true })
cpSync(example, template, { recursive: true, filter: path => !NOT_SHIPPED.has(basename(path)) })

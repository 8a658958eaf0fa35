#!/usr/bin/env node
// `npm create @livery/ca-plugin FOLDER`: a CA plugin with the tests that prove it.
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'

const [folder = 'livery-ca-plugin'] = process.argv.slice(2)
const target = resolve(folder)
if (existsSync(target) && readdirSync(target).length > 0) {
  console.error(`Cannot make a plugin in ${target}: the folder is not empty. Name another one.`)
  process.exit(1)
}
const template = join(import.meta.dirname, 'dist', 'template')
if (!existsSync(template)) {
  const stage = join(import.meta.dirname, 'stage.mjs')
  console.error(`Cannot make a plugin: this checkout has no template yet. Run: node ${stage}`)
  process.exit(1)
}
cpSync(template, target, { recursive: true })
const path = join(target, 'package.json')
const manifest = { ...JSON.parse(readFileSync(path, 'utf8')), name: basename(target).toLowerCase() }
writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`)
console.log(`${target} has a plugin that passes the conformance kit. Go on there: npm install && npm test`)

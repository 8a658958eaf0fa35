#!/usr/bin/env node
// `npm create @livery/ca-plugin NAME`: the folder NAME with a CA plugin of that name and the test that proves it.
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

/** The agent's rule for names of plugins, which suits npm's for packages. */
const NAME = /^[a-z][a-z0-9-]*$/

const USAGE = `Usage: npm create @livery/ca-plugin NAME

Makes the folder NAME with a CA plugin of that name and the test that proves it.
NAME begins with a letter and has a-z, 0-9 and -.`

const [name] = process.argv.slice(2)
if (name === '--help' || name === '-h') {
  console.log(USAGE)
  process.exit()
}
if (name === undefined) fail('a plugin: it has no name', 'Run: npm create @livery/ca-plugin my-ca')
if (!NAME.test(name))
  fail(
    `the plugin ${JSON.stringify(name)}: a name begins with a letter and has a-z, 0-9 and -`,
    'Name it such as my-ca; it becomes a folder here',
  )
const template = join(import.meta.dirname, 'dist', 'template')
if (!existsSync(template))
  fail('a plugin: this checkout has no template yet', `Run: node ${join(import.meta.dirname, 'stage.mjs')}`)
const target = resolve(name)
makeFolder()
cpSync(template, target, { recursive: true })
const description = `A CA plugin for Livery: ${name}`
edit(
  'package.json',
  text => `${JSON.stringify({ ...JSON.parse(text), name, description, private: undefined }, undefined, 2)}\n`,
)
edit('index.ts', text => text.replace("name: 'example'", `name: '${name}'`))
writeFileSync(join(target, 'README.md'), readme())
console.log(`${target} has the plugin ${name}, which passes the conformance kit. Next:`)
console.log(`  cd ${name} && npm install && npm test`)
console.log('  (until @livery/core and @livery/ca-plugins are on a registry, install their tarballs first)')

function makeFolder() {
  try {
    mkdirSync(target)
  } catch (error) {
    if (error.code === 'EEXIST') fail(`the plugin ${name}: ${target} exists`, 'Choose another name, or remove it')
    fail(`the plugin ${name}: ${error.message}`, 'Run this in a folder that you may write to')
  }
}

function edit(file, change) {
  const path = join(target, file)
  writeFileSync(path, change(readFileSync(path, 'utf8')))
}

function readme() {
  return `# ${name}

A CA plugin for [Livery](https://github.com/livery/livery): a CA that signs over HTTPS and JSON.

\`\`\`yaml
ca:
  plugin: ${name}    # or ./index.ts in this folder
  url: https://ca.example:8443
  rootCert: ca-root.pem
  tokenFile: token
\`\`\`

\`index.ts\` is the plugin, and \`conformance.test.ts\` the CA's protocol around the kit's CA: change both to those of your CA.
\`npm test\` proves it, \`npm run build\` makes \`dist\`, which is published.
[Writing a CA plugin](https://github.com/livery/livery/blob/main/packages/ca-plugins/docs/writing-a-plugin.md) has each rule.
`
}

function fail(what, remedy) {
  console.error(`Cannot make ${what}. ${remedy}.`)
  process.exit(1)
}

#!/usr/bin/env node
// Starts the program: from source in the repository, from dist in an installed package.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const major = Number.parseInt(process.versions.node, 10)
if (major < 24) {
  process.stderr.write(
    `livery: Node ${process.versions.node} is too old: it needs 24 or newer (npx livery and npm start bring their own)\n`,
  )
  process.exit(1)
}
const source = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const packed = fileURLToPath(new URL('../dist/main.js', import.meta.url))
const program = existsSync(source) ? ['--conditions=@livery/source', source] : [packed]
// Without --disable-sigusr1 a signal would open a debugger, to which all keys lie open.
const node = [process.execPath, ...process.execArgv, '--disable-sigusr1']
// execve replaces this process, so that signals and the exit code need no relay.
process.execve(process.execPath, [...node, ...program, ...process.argv.slice(2)])

// Draws the first start of a clone as its terminals show it: `npm run terminal-picture` writes docs/images/first-start.svg.
// Needs git and `script` of util-linux. It clones what is committed, and shows its folder as ~/livery.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { root } from './setup-step.mjs'

const COLUMNS = 112
const ROW = 17
const PAD = 14
const WIDTH = 840
const GAP = 10
const CTRL_C = '\x03'

const home = mkdtempSync(join(tmpdir(), 'livery-'))
const clone = join(home, 'livery')
try {
  execFileSync('git', ['clone', '--quiet', root, clone])
  const agent = terminal('SECRET_TTL=60s npm start')
  await agent.shows(/next: [^\n]*\n/)
  const started = agent.rows()
  const certs = terminal('npx livery certs')
  await certs.ended
  agent.type(CTRL_C)
  await agent.ended
  writeFileSync(join(root, 'docs', 'images', 'first-start.svg'), picture([started, certs.rows()]))
} finally {
  rmSync(home, { recursive: true, force: true })
}

/** A command at work in a terminal of the clone. */
function terminal(command) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')))
  const words = ['--quiet', '--flush', '--return', '--command', `stty cols ${COLUMNS} && ${command}`, '/dev/null']
  const child = spawn('script', words, { cwd: clone, env, stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  let output = ''
  child.stdout.setEncoding('utf8').on('data', piece => {
    output += piece
  })
  return {
    ended,
    type: keys => child.stdin.write(keys),
    async shows(pattern) {
      while (!pattern.test(output)) {
        const [code] = await Promise.race([once(child.stdout, 'data'), ended])
        if (typeof code === 'number') throw new Error(`${command} ended with ${code}:\n${output}`)
      }
    },
    rows() {
      const text = stripVTControlCharacters(output).replaceAll('\r', '').replaceAll(home, '~')
      return [`$ ${command}`, ...text.trimEnd().split('\n').flatMap(wrapped)]
    },
  }
}

function wrapped(line) {
  const rows = [line.slice(0, COLUMNS)]
  for (let at = COLUMNS; at < line.length; at += COLUMNS) rows.push(line.slice(at, at + COLUMNS))
  return rows
}

/** A dark panel for each terminal: readable on a light page and on a dark one. */
function picture(terminals) {
  let top = 0
  const panels = terminals.map(rows => {
    const height = rows.length * ROW + 2 * PAD
    const texts = rows.map(
      (row, index) => `<text x="${PAD}" y="${top + PAD + 13 + index * ROW}">${escaped(row)}</text>`,
    )
    const panel = [`<rect y="${top}" width="${WIDTH}" height="${height}" rx="8"/>`, ...texts].join('\n')
    top += height + GAP
    return panel
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${top - GAP}">
<title>The first npm start, and npx livery certs in a second terminal</title>
<style>
rect { fill: #0d1117 }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre }
rect + text { fill: #fff; font-weight: bold }
</style>
${panels.join('\n')}
</svg>
`
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}

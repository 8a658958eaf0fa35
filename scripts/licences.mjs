// The licences of third-party packages whose code is in something that is built here. Runs on the machine's own Node (18 or newer).
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The name, the version, and every licence and notice of the package in `folder`. */
export function licenceOf(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = readdirSync(folder).filter(file => /^(licen[cs]e|copying|notice)/i.test(file))
  const texts = files.map(file => readFileSync(join(folder, file), 'utf8'))
  return [`${name} ${version}`, `SPDX: ${license}`, ...texts].join('\n\n')
}

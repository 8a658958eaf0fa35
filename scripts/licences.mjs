// The licences of third-party packages whose code is in something that is built here. Runs on the machine's own Node (18 or newer).
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The name, the version, and every licence and notice of the package in `folder`. A package without such a file has them in its
 * code: `sources` are its files that are in the built result. Throws if there are none.
 */
export function licenceOf(folder, sources = []) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const files = readdirSync(folder).filter(file => /^(licen[cs]e|copying|copyright|notice)/i.test(file))
  const texts = files.length > 0 ? files.map(file => readFileSync(join(folder, file), 'utf8')) : noticesIn(sources)
  if (texts.length === 0)
    throw new Error(`${name} ${version} (${license}) has no licence in ${folder}: leave it out of what is shipped`)
  return [`${name} ${version}`, `SPDX: ${license}`, ...texts].join('\n\n')
}

/** The comments that name a copyright holder, each once: a bundler drops them. */
function noticesIn(sources) {
  const comments = sources.flatMap(file => readFileSync(file, 'utf8').match(/(?:^\/\/.*\n)+|\/\*[\s\S]*?\*\//gm) ?? [])
  return [...new Set(comments)].filter(comment => /copyright/i.test(comment))
}

// Bundles the program for the package into dist/bundle: `node packages/agent/bundle.mjs`. A start reads one file instead of a
// thousand, whose compiled code bin/bundled-program.js keeps. Processes of plugins run from dist, since they share its
// classes with the plugins.
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { licenceOf } from '../../scripts/licences.mjs'

const agent = dirname(fileURLToPath(import.meta.url))
/** As deep as the modules are, so that what they find from their own place is found from here. */
const out = join(agent, 'dist', 'bundle')
const program = join(out, 'main.js')
/** Users install them, in versions that they choose; and the loader of grpc-js for files that are not read here. */
const external = ['@kubernetes/client-node', '@opentelemetry/*', 'google-auth-library', '@grpc/proto-loader']

rmSync(out, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: agent,
  entryPoints: ['src/main.ts'],
  outfile: program,
  bundle: true,
  // Of a script V8 keeps the compiled code of functions that have run, of an ECMAScript module not.
  format: 'cjs',
  platform: 'node',
  target: 'node24',
  supported: { using: true },
  conditions: ['@livery/source'],
  external,
  // The file is a function, which the launcher calls.
  define: { 'import.meta.url': 'importMeta.url', 'import.meta.resolve': 'importMeta.resolve' },
  banner: { js: '(function (require, importMeta) {' },
  footer: { js: '})' },
  metafile: true,
})
// Most is ASCII already: one other character, in a comment, and V8 takes twice the memory for the whole.
const code = readFileSync(program, 'utf8')
writeFileSync(
  program,
  code.replaceAll(/[\u0080-\uffff]/g, character => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`),
)

// docs/install.md copies the unit from here.
cpSync(join(agent, '../../deploy/systemd'), join(agent, 'dist', 'systemd'), { recursive: true })

/** The bundled files of each third-party package, by its folder. */
const bundled = new Map()
for (const file of Object.keys(metafile.inputs)) {
  const [folder] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(file) ?? []
  if (folder !== undefined) bundled.set(folder, [...(bundled.get(folder) ?? []), join(agent, file)])
}
writeFileSync(
  join(out, 'licences.txt'),
  [...bundled.keys()]
    .sort()
    .map(folder => licenceOf(join(agent, folder), bundled.get(folder)))
    .join('\n\n'),
)

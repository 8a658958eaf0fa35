// Bundles the program for the package into dist/bundle: `node packages/agent/bundle.mjs`. A start reads a few files instead of a
// thousand. Threads and processes of plugins run from dist, since they share its classes with the plugins.
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { licenceOf } from '../../scripts/licences.mjs'

const agent = dirname(fileURLToPath(import.meta.url))
/** As deep as the modules are, so that what they find from their own place is found from here. */
const out = join(agent, 'dist', 'bundle')
/** Users install them, in versions that they choose; and the loader of grpc-js for files that are not read here. */
const external = ['@kubernetes/client-node', '@opentelemetry/*', 'google-auth-library', '@grpc/proto-loader']

rmSync(out, { recursive: true, force: true })
const { metafile } = await build({
  absWorkingDir: agent,
  entryPoints: ['src/main.ts'],
  outdir: out,
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node24',
  conditions: ['@livery/source'],
  external,
  // For what CommonJS packages require of Node.
  banner: {
    js: "import { createRequire as forBundle } from 'node:module'\nconst require = forBundle(import.meta.url)",
  },
  metafile: true,
})
/** Of a CommonJS library that is imported dynamically, the bundle has `default` alone, where Node has its names, too. */
for (const { entryPoint = '' } of Object.values(metafile.outputs))
  if (entryPoint.includes('node_modules/'))
    throw new Error(
      `${entryPoint} is imported dynamically: let a module of ours import it, and import that one dynamically`,
    )

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

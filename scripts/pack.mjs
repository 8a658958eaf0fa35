// Packs every package that is published: `node scripts/pack.mjs --out DIR [--addons DIR]`. Each addon in the folder `--addons`
// becomes a package of its platform, with the licences of what is linked into it; `--every-platform` refuses if one is missing.
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { root, runGroup } from './setup-step.mjs'

const native = join(root, 'packages', 'native-keygen')
const NOTICES = 'THIRD-PARTY-NOTICES.md'
const { parseTriple } = createRequire(join(native, 'package.json'))('@napi-rs/cli')

const { values: options } = parseArgs({
  options: {
    out: { type: 'string' },
    addons: { type: 'string', default: native },
    'every-platform': { type: 'boolean', default: false },
  },
})
if (options.out === undefined) {
  console.error('pack: --out is missing: name the folder for the tarballs')
  process.exit(2)
}
const out = resolve(options.out)
const stage = mkdtempSync(join(tmpdir(), 'livery-pack-'))
process.once('exit', () => rmSync(stage, { recursive: true, force: true }))

await run(root, 'npm', 'run', 'build')
stageNative()
await addPlatforms(resolve(options.addons))
mkdirSync(out, { recursive: true })
const published = globSync('packages/*/package.json', { cwd: root })
  .filter(file => !JSON.parse(readFileSync(join(root, file), 'utf8')).private)
  .map(file => join(root, file, '..'))
for (const folder of [...globSync(join(stage, 'npm', '*')), stage, ...published.filter(path => path !== native)])
  await run(folder, 'npm', 'pack', '--silent', '--pack-destination', out)

/** A copy, since napi writes the packages of the platforms into the manifest. */
function stageNative() {
  for (const name of ['package.json', 'README.md', 'LICENSE', 'dist'])
    cpSync(join(native, name), join(stage, name), { recursive: true })
}

async function addPlatforms(folder) {
  const manifest = JSON.parse(readFileSync(join(stage, 'package.json'), 'utf8'))
  const { binaryName, targets } = manifest.napi
  const file = triple => join(folder, `${binaryName}.${parseTriple(triple).platformArchABI}.node`)
  const present = targets.filter(triple => globSync(file(triple)).length > 0)
  const missing = targets.filter(triple => !present.includes(triple))
  if (options['every-platform'] && missing.length > 0)
    throw new Error(`no addon in ${folder} for ${missing.join(', ')}`)
  manifest.napi.targets = present
  writeFileSync(join(stage, 'package.json'), JSON.stringify(manifest, undefined, 2))
  if (present.length === 0) return
  for (const triple of present) cpSync(file(triple), join(stage, 'artifacts', basename(file(triple))))
  const napi = join(native, 'node_modules', '.bin', 'napi')
  await run(stage, napi, 'create-npm-dirs')
  await run(stage, napi, 'artifacts', '--output-dir', 'artifacts')
  await run(stage, napi, 'prepublish', '--skip-optional-publish', '--no-gh-release')
  rmSync(join(stage, 'artifacts'), { recursive: true })
  for (const platform of globSync(join(stage, 'npm', '*'))) await addLicences(platform)
}

/** The licences of the crates in the addon must be shipped beside it. */
async function addLicences(platform) {
  cpSync(join(native, 'LICENSE'), join(platform, 'LICENSE'))
  cpSync(join(native, NOTICES), join(platform, NOTICES))
  await run(platform, 'npm', 'pkg', 'set', `files[]=${NOTICES}`)
}

async function run(cwd, command, ...args) {
  if ((await runGroup(command, args, { cwd, output: 2 })) !== 0)
    throw new Error(`${command} ${args.join(' ')} failed: see its messages above`)
}

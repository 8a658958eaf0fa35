// Makes the archive of this platform, `livery-VERSION-PLATFORM.tar.gz`: `npm run archive [-- --out DIR]`. It holds the program, its
// Node and the addon, and runs from wherever it is unpacked. The Node that runs this script is the one in the archive.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { NODE_OPTIONS } from '../packages/agent/bin/node-options.js'
import {
  AGENT,
  billOfMaterials,
  build,
  CACHE,
  keepCompiledCode,
  lay,
  layPackages,
  VERSION,
  write,
} from './program-files.mjs'
import { root, say } from './setup-step.mjs'

const { values: options } = parseArgs({ options: { out: { type: 'string', default: join(root, 'dist') } } })
const out = resolve(options.out)
const name = `livery-${VERSION}-${process.platform}-${process.arch}`
const stage = mkdtempSync(join(tmpdir(), 'livery-archive-'))
process.once('exit', () => rmSync(stage, { recursive: true, force: true }))
const top = join(stage, name)
const home = join(top, 'lib/livery')
const node = realpathSync(process.execPath)

/** Finds its folder through links, such as one in PATH. It passes all options, so that Node need not start twice. */
const LAUNCHER = `#!/bin/sh
home=$(dirname "$(readlink -f "$0")")/../lib/livery
export MALLOC_ARENA_MAX="\${MALLOC_ARENA_MAX-2}"
exec "$home/node" ${NODE_OPTIONS.join(' ')} "$home/${AGENT}/bin/livery.js" "$@"
`

await build()
layPackages(home)
lay(node, join(home, 'node'), 0o755)
lay(join(dirname(node), '../LICENSE'), join(home, 'LICENSE-node'))
write(join(top, 'bin/livery'), LAUNCHER, 0o755)
lay(join(root, 'LICENSE'), join(top, 'LICENSE'))
lay(join(root, 'packages/agent/man/livery.1'), join(top, 'share/man/man1/livery.1'))
write(join(top, 'share/livery/livery.cdx.json'), billOfMaterials('application'))
if (process.platform === 'linux')
  for (const file of ['livery.service', 'takeover.conf'])
    lay(join(root, 'deploy/systemd', file), join(top, 'lib/systemd/system', file))
await layCompiledCode()
pack()

/** A service's user may not write where the archive is unpacked, so its first start needs code that was compiled before. */
async function layCompiledCode() {
  const work = join(stage, 'first-start')
  mkdirSync(work)
  await keepCompiledCode([join(top, 'bin/livery')], { work, cwd: work, env: { PATH: process.env.PATH } })
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', join(home, CACHE)])
}

function pack() {
  mkdirSync(out, { recursive: true })
  const archive = join(out, `${name}.tar.gz`)
  const owner = process.platform === 'linux' ? ['--owner=0', '--group=0', '--numeric-owner'] : ['--uid=0', '--gid=0']
  execFileSync('tar', [...owner, '-czf', archive, '-C', stage, name])
  say(`made ${archive}`)
}

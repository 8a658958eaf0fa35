/** Finds the Rust addon: a build beside this package first, then the optional package of this platform. */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The exports of `rust/bridge.rs` and the other bridges. */
export type Addon = typeof import('./gen/binding.ts')

type AddonLookup =
  | { readonly addon: Addon }
  | { readonly addon: undefined; readonly reason: string; readonly remedy: string }

/** The number of the addon's interface: `rust/abi.rs` has the same, and both are raised when an export changes. */
export const ABI = 9

/** Resolved by package name, since bundles contain this code, too. */
const OWN_FOLDER = dirname(fileURLToPath(import.meta.resolve('@livery/native-keygen/package.json')))

/** Where `npm start` of a clone writes the process id of its build in the background, below this package's folder. */
export const BUILD_PID = '.cache/addon-build.pid'

/** Never throws: without an addon it gives the reason and the remedy. `folder`: this package's. */
export function findAddon(folder: string = OWN_FOLDER): AddonLookup {
  const problems: string[] = []
  const require = createRequire(`${folder}/package.json`)
  for (const platform of platformNames()) {
    for (const specifier of [`./livery-native-keygen.${platform}.node`, packageName(platform)]) {
      try {
        const addon: unknown = require(specifier)
        if (isAddon(addon)) return { addon }
        problems.push(`${specifier} has ${abiOf(addon)} where this version needs ABI ${ABI}`)
      } catch (error) {
        if (!isAbsent(error, specifier)) problems.push(`${specifier} does not load: ${error}`)
      }
    }
  }
  if (problems.length === 0) problems.push(`none is here for ${platformNames().join(' or ')}`)
  const reason = `Cannot load the native key generator: ${problems.join(', ')}`
  return { addon: undefined, reason, remedy: isBeingBuilt(folder) ? WAIT : INSTALL }
}

const WAIT = 'The setup is building it in the background: restart the agent when that is done'
const INSTALL = `Run "npm run native", which needs cargo and a C compiler, or install ${platformNames().map(packageName).join(' or ')} in the version of @livery/native-keygen`

function isBeingBuilt(folder: string): boolean {
  try {
    return process.kill(Number.parseInt(readFileSync(join(folder, BUILD_PID), 'utf8'), 10), 0)
  } catch (error) {
    // The build runs as another user.
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

/** The addon of this process. */
export const lookup: AddonLookup = findAddon()

/** The names that napi-rs gives platforms. On Linux both C libraries are tried: an addon for the wrong one does not load. */
function platformNames(): readonly string[] {
  const { platform, arch } = process
  return platform === 'linux' ? [`linux-${arch}-gnu`, `linux-${arch}-musl`] : [`${platform}-${arch}`]
}

function packageName(platform: string): string {
  return `@livery/native-keygen-${platform}`
}

function isAddon(value: unknown): value is Addon {
  return typeof value === 'object' && value !== null && 'ABI' in value && value.ABI === ABI
}

function abiOf(value: unknown): string {
  return typeof value === 'object' && value !== null && 'ABI' in value ? `ABI ${value.ABI}` : 'no ABI number'
}

/** Whether `specifier` itself was not found, and not something that it needs. */
function isAbsent(error: unknown, specifier: string): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    error.code === 'MODULE_NOT_FOUND' &&
    error.message.includes(`'${specifier}'`)
  )
}

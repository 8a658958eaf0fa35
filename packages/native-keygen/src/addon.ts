/** Finds the Rust addon: a build beside this package first, then the optional package of this platform. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** What `rust/bridge.rs` and the other bridges export. */
export type Addon = typeof import('./gen/binding.ts')

export type AddonLookup = { readonly addon: Addon } | { readonly addon: undefined; readonly reason: string }

const EXPORTS = [
  'acceptWaiting',
  'disableCoreDumps',
  'KeyPool',
  'KeyQueue',
  'keyVaultStatus',
  'openKey',
  'peerCredentials',
  'publicKeyOf',
  'readChain',
  'sealKey',
  'TrustAnchor',
]

/** Never throws: `reason` says why there is no addon and what to do. `folder` is that of this package. */
export function findAddon(folder: string = fileURLToPath(new URL('..', import.meta.url))): AddonLookup {
  const problems: string[] = []
  const require = createRequire(`${folder}/package.json`)
  for (const platform of platformNames()) {
    for (const specifier of [`./livery-native-keygen.${platform}.node`, `@livery/native-keygen-${platform}`]) {
      try {
        const addon: unknown = require(specifier)
        if (isAddon(addon)) return { addon }
        problems.push(`${specifier} is of another version`)
      } catch (error) {
        problems.push(isAbsent(error, specifier) ? `${specifier} is absent` : `${specifier} does not load: ${error}`)
      }
    }
  }
  const remedy =
    'Build it with "npm run native" (it needs cargo and a C compiler), or install the package of this platform'
  return { addon: undefined, reason: `Cannot load the native key generator: ${problems.join(', ')}. ${remedy}` }
}

/** The addon of this process. */
export const lookup: AddonLookup = findAddon()

/** As napi-rs names platforms. Which C library this Linux has is for the loader to find out: the wrong one fails. */
function platformNames(): readonly string[] {
  const { platform, arch } = process
  return platform === 'linux' ? [`linux-${arch}-gnu`, `linux-${arch}-musl`] : [`${platform}-${arch}`]
}

function isAddon(value: unknown): value is Addon {
  if (typeof value !== 'object' || value === null) return false
  const members = new Map(Object.entries(value))
  return EXPORTS.every(name => typeof members.get(name) === 'function')
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

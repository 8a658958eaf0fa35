/** The values and defaults of the options: a separate subpath, so that a program can show them without loading the addon. */

export const RSA_KEYS = ['library', 'search', 'simd'] as const

/**
 * `library`: aws-lc's own generator. `search`: our search for primes with aws-lc's exponentiation. `simd`: the same search
 * with several exponentiations at once, on CPUs with AVX-512 IFMA or AVX2. `docs/understand/rsa-keys.md` compares them.
 */
export type RsaKeys = (typeof RSA_KEYS)[number]

export const DEFAULT_RSA_KEYS: RsaKeys = 'simd'

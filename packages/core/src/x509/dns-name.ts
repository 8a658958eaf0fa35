/** DNS names that a certificate may carry: RFC 1123, with a wildcard as the whole first label at most (RFC 6125, section 6.4.3). */

/** One name. */
const MAX_LENGTH = 253
/** One certificate: more than a gateway with many hosts has, and a certificate of 64 long ones still fits into a CSR that every CA takes. */
export const MAX_DNS_NAMES = 64

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

export function isDnsLabel(text: string): boolean {
  return LABEL.test(text)
}

/** Why `name` cannot be in a certificate; `undefined` if it can. */
export function dnsNameProblem(name: string): string | undefined {
  if (name.length > MAX_LENGTH) return `is longer than ${MAX_LENGTH} characters`
  if (name !== name.toLowerCase()) return 'has upper-case letters'
  const labels = (name.startsWith('*.') ? name.slice(2) : name).split('.')
  if (!labels.every(isDnsLabel))
    return 'is not a DNS name: labels of a-z, 0-9 and "-", each of at most 63 characters, with dots between, and "*." before them at most'
  return /^\d+$/.test(labels.at(-1) ?? '') ? 'ends in a number, as an IP address does' : undefined
}

/** The same for all names of one certificate. */
export function dnsNamesProblem(names: readonly unknown[]): string | undefined {
  if (names.length > MAX_DNS_NAMES) return `there are ${names.length}, more than ${MAX_DNS_NAMES}`
  for (const [index, name] of names.entries()) {
    const problem = typeof name === 'string' ? dnsNameProblem(name) : 'is not a text'
    if (problem !== undefined) return `number ${index + 1} ${problem}`
  }
  return new Set(names).size === names.length ? undefined : 'one is there twice'
}

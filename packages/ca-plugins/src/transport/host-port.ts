/** `host:port`, as addresses are written in the configuration. */
import { hideUserinfo } from '@livery/core/plugin'

export interface HostPort {
  /** An IPv6 address without its brackets. */
  readonly host: string
  readonly port: number
}

/** Parses `host:port` or `[IPv6]:port`; throws a `TypeError` that names `field`, the value and the reason. */
export function parseHostPort(field: string, text: string): HostPort {
  const parsed = readHostPort(text)
  if (parsed) return parsed
  const shown = JSON.stringify(hideUserinfo(text).slice(0, 256))
  throw new TypeError(`Cannot use ${field} ${shown}: it ${userinfoProblem(text) ?? NO_HOST_PORT}.`)
}

/** Why `text` is not a usable address, as the `problem` of an option; `undefined` if it is one. */
export function hostPortProblem(text: string): string | undefined {
  const parsed = readHostPort(text)
  if (!parsed) return userinfoProblem(text) ?? NO_HOST_PORT
  return parsed.port === 0 ? 'has port 0, which cannot be called. Name the port of the CA' : undefined
}

/** Why an address is refused that may contain a user name or a password, as the `problem` of an option. */
export function userinfoProblem(address: string): string | undefined {
  if (!address.includes('@')) return undefined
  return 'has an "@". Leave a user name, password or token out of an address, and write an "@" of its path as %40'
}

const NO_HOST_PORT =
  'is not of the form "host:port" with a port of at most 65535. Write it like "127.0.0.1:15012", or "[::1]:15012" for IPv6'

function readHostPort(text: string): HostPort | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([0-9A-Fa-f:.%]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  const port = Number(digits)
  return host !== undefined && port <= 65_535 ? { host, port } : undefined
}

export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** Host names, as verifiers of name constraints (RFC 5280, section 4.2.1.10) all read them. */

const HOST = /^(?=.{1,253}$)[\w-]{1,63}(?:\.[\w-]{1,63})*$/
/** Verifiers disagree on anything else in an authority. */
const URI = /^[A-Za-z]+:\/\/([^/]*)(?:\/[\w./~-]*)?$/

/** Labels with dots between them. */
export function isHost(text: string): boolean {
  return HOST.test(text) && !text.endsWith('\n')
}

/** The host of a URI that is nothing but `scheme://host/path`. */
export function hostOf(uri: string): string | undefined {
  const host = uri.endsWith('\n') ? undefined : URI.exec(uri)?.[1]
  return host !== undefined && isHost(host) ? host : undefined
}

export function endsInNumber(host: string): boolean {
  return /(?:^|\.)\d*$/.test(host)
}

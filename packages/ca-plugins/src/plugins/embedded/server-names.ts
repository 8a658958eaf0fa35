/** The names of a TLS server certificate. */
export interface ServerNames {
  readonly dnsNames: readonly string[]
  readonly ipAddresses: readonly string[]
}

/** The remedy for a connection that failed on the server's certificate, found by its text. */

/** Node's hint is for programs that take their roots from the machine; a CA's roots are those that its options name. */
const NODE_HINT = /; if the root CA is installed locally, try running Node\.js with --use-system-ca/

export function withoutNodeHint(text: string): string {
  return text.replace(NODE_HINT, '')
}

/** OpenSSL's texts, which Node passes on, for a certificate that no given root has signed. */
const UNKNOWN_ISSUER = /issuer certificate|self-signed|unable to verify the first certificate/i
const OTHER_FAILURE = /certificate|altname|CERT_/i

/**
 * `undefined` for any other failure. `roots`: the source of the roots; `name`: the source of the server's name, if there is one.
 */
export function certificateRemedy(text: string, roots: string, name?: string): string | undefined {
  if (UNKNOWN_ISSUER.test(text))
    return `No root in ${roots} has signed the CA's certificate. If the CA has a new root, add it there`
  if (!OTHER_FAILURE.test(text)) return undefined
  return `Check ${[roots, ...(name === undefined ? [] : [name])].join(' and ')} against the CA's certificate`
}

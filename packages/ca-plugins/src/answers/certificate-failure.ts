/** What the text of a failed connection says about the server's certificate, and what to do. */

/** Of Node, for programs that take their roots from the machine: a CA's are those that its options name. */
const NODE_HINT = /; if the root CA is installed locally, try running Node\.js with --use-system-ca/

export function withoutNodeHint(text: string): string {
  return text.replace(NODE_HINT, '')
}

/** No root that was given has signed the certificate: OpenSSL's texts, which Node passes on. */
const UNKNOWN_ISSUER = /issuer certificate|self-signed|unable to verify the first certificate/i
const OTHER_FAILURE = /certificate|altname|CERT_/i

/**
 * `undefined` where the failure is another one. `roots`: where the roots come from; `name`: where the server's name does, if anywhere.
 */
export function certificateRemedy(text: string, roots: string, name?: string): string | undefined {
  if (UNKNOWN_ISSUER.test(text))
    return `No root in ${roots} has signed the CA's certificate. If the CA has a new root, add it there`
  if (!OTHER_FAILURE.test(text)) return undefined
  return `Check ${[roots, ...(name === undefined ? [] : [name])].join(' and ')} against the CA's certificate`
}

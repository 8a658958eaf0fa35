/** The newest certificate in use: it shows how the clocks of the CA and this node differ. */
import type { IdentityEntry } from '@livery/core'

export class NewestCertificate {
  /** Milliseconds since the epoch; `at`: when it came. `undefined` while no identity has a certificate from the CA. */
  found: { readonly at: number; readonly notBefore: number; readonly notAfter: number } | undefined

  look({ secret, receivedAt }: IdentityEntry): void {
    if (!secret || receivedAt === undefined || (this.found && receivedAt <= this.found.at)) return
    this.found = { at: receivedAt, notBefore: secret.notBefore, notAfter: secret.notAfter }
  }
}

/** Roots that do not come from the CA: those that an operator lists, in the configuration, a file or at an endpoint. */

/** One list of roots of a trust domain. Every root in it is trusted from the moment it is listed until it no longer is. */
export interface RootSource {
  readonly trustDomain: string
  /** For reports: the key of the configuration, the path or the URL. */
  readonly name: string
  /** Reports to `listener` until it is disposed; what is known already inside this call. */
  open(listener: RootListener): Disposable
}

export interface RootListener {
  /** The whole list now: PEM, one certificate per element. The same list again is allowed. */
  listed(roots: readonly string[]): void
  /** The list cannot be read now: the last one stays in force. `reason` is for people. */
  failed(reason: string): void
}

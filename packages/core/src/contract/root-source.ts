/** Roots that do not come from the CA: those that an operator lists, in the configuration, a file or at an endpoint. */

/** One list of roots of a trust domain. Every root in it is trusted from the moment it is listed until it no longer is. */
export interface RootSource {
  readonly trustDomain: string
  /** The name in reports: the key of the configuration, the path or the URL. */
  readonly name: string
  /** Reports to `listener` until disposed; a list that is already known, inside this call. */
  open(listener: RootListener): Disposable
}

export interface RootListener {
  /** The whole list now: PEM, one certificate per element. The same list again is allowed. */
  listed(roots: readonly string[]): void
  /** The list cannot be read now: the last one stays in force. `reason` is for operators. */
  failed(reason: string): void
}

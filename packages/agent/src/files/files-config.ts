/** The part of the configuration that the module `files` reads. */

export interface FilesConfig {
  readonly trustDomain: string
  readonly ca: { readonly plugin: { readonly name: string } }
  readonly files: {
    readonly allow?: readonly string[] | undefined
    readonly wellKnown: readonly string[]
    readonly expired: 'withhold' | 'serve'
    readonly poll: number
  }
  readonly sockets: readonly {
    readonly allow: readonly string[]
    readonly callers?: readonly { readonly allow?: readonly string[] | undefined }[] | undefined
  }[]
  readonly identities: readonly {
    readonly socket?: { readonly allow?: readonly string[] | undefined } | undefined
    readonly output?: { readonly directory: string } | undefined
  }[]
}

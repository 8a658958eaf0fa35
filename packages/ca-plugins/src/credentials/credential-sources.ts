/** The credential plugins that are built in, by their names under `credentials: { source: … }`. */
import type { CredentialPlugin } from '@livery/core'
import { gceMetadata } from './gce-metadata.ts'
import { staticToken } from './static-token.ts'
import { sts } from './sts.ts'
import { tokenFile } from './token-file.ts'

export const credentialSources = {
  'token-file': tokenFile,
  'gce-metadata': gceMetadata,
  sts,
  static: staticToken,
} as const satisfies Readonly<Record<string, CredentialPlugin>>

/** The public names of `@livery/ca-plugins/credentials`. */

export { gceMetadata } from './gce-metadata.ts'
export { staticToken } from './static-token.ts'
export type { ExchangeConfig } from './sts.ts'
export { exchangeTokens, sts } from './sts.ts'
export { TokenCache } from './token-cache.ts'
export { tokenFile } from './token-file.ts'
export { workloadToken } from './workload-token.ts'

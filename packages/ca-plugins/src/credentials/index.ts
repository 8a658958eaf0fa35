/** The public names of `@livery/ca-plugins/credentials`. */

export { tokenFile } from './token-file.ts'

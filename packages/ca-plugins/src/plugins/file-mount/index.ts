/** The public names of `@livery/ca-plugins/file-mount`. */

export type { FileMountConfig } from './config.ts'
export { fileMount, fileMount as plugin } from './plugin.ts'
export { WellKnownFiles } from './well-known.ts'

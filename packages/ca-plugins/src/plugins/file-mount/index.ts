/** The public names of `@livery/ca-plugins/file-mount`. */

export type { FileMountConfig } from './config.ts'
export { fileMount, fileMount as plugin } from './plugin.ts'
export { WellKnownFiles, type WellKnownFilesOptions } from './well-known.ts'

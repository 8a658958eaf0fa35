/** The public names of `@livery/ca-plugins/file-mount`. */

export { fileMount, fileMount as plugin } from './file-mount.ts'
export type { FileMountConfig } from './plugin.ts'

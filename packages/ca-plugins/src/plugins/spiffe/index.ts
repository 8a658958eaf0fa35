/** The public names of `@livery/ca-plugins/spiffe`. */

export { spiffe, spiffe as plugin } from './plugin.ts'

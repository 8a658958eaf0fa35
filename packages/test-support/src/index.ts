/** Public names: for the tests, fuzz subjects and benchmarks of every package, never for published code. */
export { freePort, listening, portOf } from './listening.ts'
export { TemporaryFolder, type TestEnd, temporaryFolder } from './temporary-folder.ts'

/** Public names: for the tests, fuzz subjects and benchmarks of every package, and for nothing that is published. */
export { freePort, listening, portOf } from './listening.ts'
export { TemporaryFolder, type TestEnd, temporaryFolder } from './temporary-folder.ts'

/** A folder that is removed with its test, also when the test fails. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A disposable folder, for helpers without a test. */
export class TemporaryFolder implements Disposable {
  /** The real path: macOS's temporary folder is behind a symbolic link. */
  readonly path: string

  constructor() {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'livery-')))
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** A test, or `{ after }` of node:test for a folder that all tests of a file share. */
export interface TestEnd {
  after(remove: () => void): void
}

export function temporaryFolder(t: TestEnd): string {
  const folder = new TemporaryFolder()
  t.after(() => folder[Symbol.dispose]())
  return folder.path
}

/** A folder that is removed with its test, also when the test fails. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** For helpers without a test: `using`, or a part of another disposable. */
export class TemporaryFolder implements Disposable {
  /** Without symbolic links, which the system's own folder has on macOS. */
  readonly path: string

  constructor() {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), 'livery-')))
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** A test, or `{ after }` of node:test for what all tests of a file share. */
export interface TestEnd {
  after(remove: () => void): void
}

export function temporaryFolder(t: TestEnd): string {
  const folder = new TemporaryFolder()
  t.after(() => folder[Symbol.dispose]())
  return folder.path
}

/** Small files that change at the worst moment. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ChangingFile, readSmallFile } from './changing-file.ts'

// Its size is told as 0, so that it has grown whenever it is read.
const GROWING = '/proc/self/status'
const skip = process.platform === 'linux' ? false : `needs ${GROWING}`

test('a file that grows while it is read is an error of whoever reads it, and no fault that nobody catches', {
  skip,
}, async () => {
  for (let round = 0; round < 20; round++) {
    await assert.rejects(readSmallFile(GROWING, 4096), /it changed while it was read/)
    await assert.rejects(new ChangingFile(GROWING, 4096).read(), /it changed while it was read/)
  }
})

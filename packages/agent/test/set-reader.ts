/**
 * A thread that reads an output directory in a loop, and posts the serial number of each new set; a message ends it, and it posts
 * its report.
 */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'

export interface ReaderReport {
  readonly reads: number
  /** Serial numbers, in the order in which they came. */
  readonly serials: readonly string[]
  readonly faults: readonly string[]
}

const directory = String(workerData)
const serials: string[] = []
const faults: string[] = []
let reads = 0
let isOver = false
parentPort?.once('message', () => {
  isOver = true
})

while (!isOver) {
  const set = readlinkSync(join(directory, '..data'))
  try {
    read(join(directory, set))
  } catch (error) {
    // On the test's clock the half minute that a replaced set stays is over in a moment.
    const isReplaced = error instanceof Error && error.message.startsWith('ENOENT')
    if (!isReplaced || readlinkSync(join(directory, '..data')) === set) faults.push(String(error))
  }
  reads++
  await setImmediate()
}
parentPort?.postMessage({ reads, serials, faults } satisfies ReaderReport)

/** As a program that follows the link once, and as one that reads the one file with everything. */
function read(set: string): void {
  const serial = check(readFileSync(join(set, 'cert-chain.pem')), readFileSync(join(set, 'key.pem')))
  if (serials.at(-1) !== serial) {
    serials.push(serial)
    parentPort?.postMessage(serial)
  }
  new X509Certificate(readFileSync(join(set, 'root-cert.pem')))
  const whole = readFileSync(join(directory, 'bundle.pem'))
  check(whole, whole)
}

function check(chain: Buffer, key: Buffer): string {
  const leaf = new X509Certificate(chain)
  if (!leaf.checkPrivateKey(createPrivateKey(key))) throw new Error(`a mixed set: ${leaf.serialNumber}`)
  return leaf.serialNumber
}

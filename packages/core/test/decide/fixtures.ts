/** Fixtures that need real keys: roots and revocation lists, once for all runs. */

import type { Root } from '../../src/contract/trust-anchor.ts'
import { makeCrl, makeIssuer } from '../../src/testing/test-ca.ts'
import { RootReader } from '../../src/trust/root-reader.ts'

/** Leaves have a serial number of two digits below this; a list names the first ones. */
export const SERIALS = 40

export interface Authority {
  readonly root: Root
  /** Names the leaves with these serial numbers. */
  readonly crl: string
}

export interface Fixtures {
  readonly read: RootReader['readOne']
  /** The last one belongs to a CA without faults. */
  readonly authorities: readonly Authority[]
}

export async function makeFixtures(now: number, count = 4): Promise<Fixtures> {
  const reader = new RootReader()
  const authorities: Authority[] = []
  for (let index = 0; index < count; index++) {
    const issuer = await makeIssuer(`CN=root ${index}`, now)
    const root = reader.readOne(issuer.pem)
    if (typeof root === 'string') throw new TypeError(root)
    const dates = { thisUpdate: now - 60_000, nextUpdate: now + 10 * 365 * 86_400_000 }
    authorities.push({ root, crl: await makeCrl(issuer, [serialOf(0), serialOf(1), serialOf(2)], dates) })
  }
  return { authorities, read: pem => reader.readOne(pem) }
}

export function serialOf(number: number): string {
  return (0x10 + number).toString(16)
}

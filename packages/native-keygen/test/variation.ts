/** The input of a variation: the plan of a certificate, and choices by a seed. */
import type { KeyObject } from 'node:crypto'
import { extension, type SignatureScheme } from './certificate-forge.ts'

/** A number in [0, `below`). */
export type Draw = (below: number) => number
export type Role = 'leaf' | 'intermediate' | 'root'

/** The parts of a certificate before it is signed. */
export interface Plan {
  readonly role: Role
  key: KeyObject
  scheme: SignatureScheme
  subject: Buffer
  issuer?: Buffer
  version?: Buffer
  serial?: Buffer
  /** AlgorithmIdentifier inside, where it is another than outside. */
  algorithm?: Buffer
  from: number
  to: number
  publicKey?: Buffer
  /** Unique identifiers: what stands between the key and the extensions. */
  identifiers?: Buffer
  /** Changes the form of the signed part, or of the certificate around it. */
  form?: (tbs: Buffer) => Buffer
  whole?: (certificate: Buffer) => Buffer
  readonly extensions: Map<string, Buffer>
}

export type Variation = (plan: Plan, draw: Draw) => void

export const pick = <T>(draw: Draw, list: readonly T[]): T => list[Math.floor(draw(list.length))] as T

/** Sets the extension of this name to one of the choices, or leaves it out. */
export const put =
  (name: string, ...choices: readonly (Buffer | undefined)[]): Variation =>
  ({ extensions }, draw) => {
    const chosen = pick(draw, choices)
    if (chosen) extensions.set(name, chosen)
    else extensions.delete(name)
  }

/** An extension that is critical or not, whatever it is supposed to be. */
export const both = (id: string, value: Buffer) => [
  extension(id, value, { critical: true }),
  extension(id, value, { critical: false }),
]

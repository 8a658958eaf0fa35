/** A volume with a key pair as the kubelet fills it: each version is a new folder, and the link `..data` is replaced. */
import { mkdirSync, readlinkSync, renameSync, rmdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SignedPair } from './quick-ca.ts'

const FILES = ['cert.pem', 'key.pem']

export class MountedPair {
  /** The name of its files. */
  readonly name: string
  /** The pair that was written last. */
  pair: SignedPair
  /** When the next one is to be written, milliseconds since the epoch. */
  dueAt: number
  readonly #folder: string
  #version = 0

  constructor(folder: string, pair: SignedPair, dueAt: number) {
    this.#folder = folder
    this.pair = pair
    this.dueAt = dueAt
    this.name = `file-cert:${folder}/cert.pem~${folder}/key.pem`
    mkdirSync(folder)
    this.#write(pair)
    for (const file of FILES) symlinkSync(`..data/${file}`, join(folder, file))
  }

  swap(pair: SignedPair): void {
    const before = join(this.#folder, readlinkSync(join(this.#folder, '..data')))
    this.pair = pair
    this.#write(pair)
    for (const file of FILES) unlinkSync(join(before, file))
    rmdirSync(before)
  }

  /** The certificate of `next` beside the key of now, as where a volume is filled in two steps. */
  swapChain({ chain }: SignedPair): void {
    const { pair } = this
    this.swap({ ...pair, chain })
    this.pair = pair
  }

  #write({ chain, key }: SignedPair): void {
    const data = `..version_${this.#version++}`
    mkdirSync(join(this.#folder, data))
    writeFileSync(join(this.#folder, data, 'cert.pem'), chain)
    writeFileSync(join(this.#folder, data, 'key.pem'), key, { mode: 0o600 })
    symlinkSync(data, join(this.#folder, '..data_tmp'))
    renameSync(join(this.#folder, '..data_tmp'), join(this.#folder, '..data'))
  }
}

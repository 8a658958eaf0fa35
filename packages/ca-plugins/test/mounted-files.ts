/** Folders of identities as their writers leave them. */
import { mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { BroughtCertificate } from '../src/conformance/index.ts'

/** Whole or not at all. */
export function replaceFile(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.new`, content, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

/** Istio's names, one file after the other. */
export function writeSet(folder: string, { chain, roots, privateKey }: BroughtCertificate): void {
  replaceFile(join(folder, 'root-cert.pem'), roots.join(''))
  replaceFile(join(folder, 'key.pem'), privateKey)
  replaceFile(join(folder, 'cert-chain.pem'), chain.join(''))
}

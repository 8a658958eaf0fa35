/** Folders of identities as their writers leave them. */
import { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
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

/** As the kubelet publishes a volume: all files at once, behind the link `..data`. */
export function publishSet(folder: string, version: number, { chain, roots, privateKey }: BroughtCertificate): void {
  const data = join(folder, `..v${version}`)
  mkdirSync(data, { recursive: true })
  const files = { 'cert-chain.pem': chain.join(''), 'key.pem': privateKey, 'root-cert.pem': roots.join('') }
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(data, name), content)
    if (!existsSync(join(folder, name))) symlinkSync(`..data/${name}`, join(folder, name))
  }
  symlinkSync(`..v${version}`, join(folder, '..data_tmp'))
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  rmSync(join(folder, `..v${version - 1}`), { recursive: true, force: true })
}

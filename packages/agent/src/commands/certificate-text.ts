/** `livery certs --text NAME`: each certificate of a chain in full, as `openssl x509 -text` shows one. */
import 'reflect-metadata'
import { oneLine } from '@livery/core'
import { X509Certificate } from '@peculiar/x509'
import type { ListedIdentity } from './listed-certificates.ts'

/** The text of each certificate and its PEM, leaf first. It holds no key, because the dump has none. */
export function certificateText({ certChain }: Pick<ListedIdentity, 'certChain'>): string {
  return certChain.map(({ pem }) => textOf(Buffer.from(pem, 'base64').toString('latin1'))).join('')
}

/** Kinds of names that the library calls otherwise than openssl does. */
const LABELS: Readonly<Record<string, string>> = { URL: 'URI', Email: 'email', IP: 'IP Address' }

function textOf(pem: string): string {
  const lines = new X509Certificate(pem).toString('text').split('\n')
  return `${lines.map(printable).join('\n')}\n${pem.trimEnd()}\n`
}

/** Names in a certificate are of its CA's choice; the spaces before them are of the layout. */
function printable(line: string): string {
  const text = line.trimStart()
  const named = text.replace(/^(?:URL|Email|IP)(?=: )/, label => LABELS[label] ?? label)
  return `${' '.repeat(line.length - text.length)}${oneLine(named)}`
}

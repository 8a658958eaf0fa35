/** `livery certs --text NAME`: each certificate of a chain in full, as `openssl x509 -text` shows one. */
import 'reflect-metadata'
import { oneLine } from '@livery/core/plugin'
import { TextConverter, TextObject, X509Certificate } from '@peculiar/x509'
import type { ListedIdentity } from './listed-certificates.ts'

/** The text of each certificate and its PEM, leaf first. It holds no key, because the dump has none. */
export function certificateText({ certChain }: Pick<ListedIdentity, 'certChain'>): string {
  return certChain.map(({ pem }) => textOf(Buffer.from(pem, 'base64').toString('latin1'))).join('')
}

/** Kinds of names that the library and openssl name differently. */
const LABELS: Readonly<Record<string, string>> = { URL: 'URI', Email: 'email', IP: 'IP Address' }

function textOf(pem: string): string {
  const certificate = new X509Certificate(pem)
  const lines = TextConverter.serialize(onOneLineEach(certificate.toTextObject())).split('\n')
  return `${lines.map(labelled).join('\n')}\n${certificate.toString('pem').trimEnd()}\n`
}

/** The CA chooses the names in a certificate: a line break in one could imitate a line of the layout. */
function onOneLineEach(object: TextObject): TextObject {
  for (const key of [...Object.keys(object), TextObject.VALUE]) {
    const value = object[key]
    if (typeof value === 'string') object[key] = oneLine(value)
    else if (Array.isArray(value)) for (const each of value) onOneLineEach(each)
    else if (value instanceof TextObject) onOneLineEach(value)
    else if (typeof value === 'object' && 'toTextObject' in value) object[key] = onOneLineEach(value.toTextObject())
  }
  return object
}

function labelled(line: string): string {
  return line.replace(
    /^( *)(URL|Email|IP)(?=: )/,
    (_, indent: string, label: string) => indent + (LABELS[label] ?? label),
  )
}

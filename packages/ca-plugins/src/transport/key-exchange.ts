/** The key exchange group of a TLS connection. */
import type { TLSSocket } from 'node:tls'

/** Keyed by the names that Node.js reports. A server picks one that was offered, so there are few: each is a label of a metric. */
const NAMES: Readonly<Record<string, string>> = {
  X25519MLKEM768: 'X25519MLKEM768',
  SecP256r1MLKEM768: 'SecP256r1MLKEM768',
  SecP384r1MLKEM1024: 'SecP384r1MLKEM1024',
  MLKEM768: 'MLKEM768',
  MLKEM1024: 'MLKEM1024',
  X25519: 'X25519',
  X448: 'X448',
  prime256v1: 'P-256',
  secp384r1: 'P-384',
  secp521r1: 'P-521',
}

/** `other` where Node.js does not name it. */
export function keyExchangeOf(socket: TLSSocket): string {
  const info = socket.getEphemeralKeyInfo()
  const name = info && 'name' in info ? info.name : undefined
  return (typeof name === 'string' && NAMES[name]) || 'other'
}

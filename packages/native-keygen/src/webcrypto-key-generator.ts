/** The key generator that stands in where no addon is built: WebCrypto. */
import { KeyObject, webcrypto } from 'node:crypto'
import { availableParallelism } from 'node:os'
import {
  type GeneratedKey,
  type KeyGenerator,
  type KeyRequest,
  type KeyType,
  privateKeyToPem,
} from '@livery/core/plugin'
import { unlessAborted } from './abandon.ts'
import { checkKeyRequest, checkKeyRequests } from './key-request.ts'
import { wipe, wipeAll } from './wipe.ts'

/**
 * Some fifty times slower than the native one for batches of ECDSA keys, and no slower for RSA. Node hands every step to
 * libuv's thread pool. An abort is answered at once; a key that has begun is finished and wiped. OpenSSL's own copy of
 * a key stays in memory until the garbage collector frees it.
 */
export class WebCryptoKeyGenerator implements KeyGenerator {
  readonly name = 'webcrypto'

  async generate(request: KeyRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<GeneratedKey> {
    const checked = checkKeyRequest(request)
    signal?.throwIfAborted()
    return unlessAborted(signal, makeKey(checked), { discard: wipe })
  }

  async generateBatch(
    requests: readonly KeyRequest[],
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<readonly GeneratedKey[]> {
    const checked = await checkKeyRequests(requests)
    signal?.throwIfAborted()
    return unlessAborted(signal, makeKeys(checked, signal), { discard: wipeAll })
  }
}

interface KeyKind {
  readonly algorithm: webcrypto.EcKeyGenParams | webcrypto.RsaHashedKeyGenParams
  readonly hash: 'SHA-256' | 'SHA-384'
  readonly traditional: { readonly type: 'sec1' | 'pkcs1'; readonly label: string }
}

const SEC1 = { type: 'sec1', label: 'EC PRIVATE KEY' } as const
const PKCS1 = { type: 'pkcs1', label: 'RSA PRIVATE KEY' } as const
const PKCS8 = { type: 'pkcs8', label: 'PRIVATE KEY' } as const

const KINDS: Readonly<Record<KeyType, KeyKind>> = {
  'ecdsa-p256': { algorithm: { name: 'ECDSA', namedCurve: 'P-256' }, hash: 'SHA-256', traditional: SEC1 },
  'ecdsa-p384': { algorithm: { name: 'ECDSA', namedCurve: 'P-384' }, hash: 'SHA-384', traditional: SEC1 },
  'rsa-2048': { algorithm: rsa(2048), hash: 'SHA-256', traditional: PKCS1 },
  'rsa-3072': { algorithm: rsa(3072), hash: 'SHA-256', traditional: PKCS1 },
  'rsa-4096': { algorithm: rsa(4096), hash: 'SHA-256', traditional: PKCS1 },
}

function rsa(modulusLength: number): webcrypto.RsaHashedKeyGenParams {
  const publicExponent = Uint8Array.of(1, 0, 1)
  return { name: 'RSASSA-PKCS1-v1_5', modulusLength, publicExponent, hash: 'SHA-256' }
}

async function makeKey({ type, format, ...names }: Required<KeyRequest>): Promise<GeneratedKey> {
  // Loaded with the first key: it would slow the start by a fifth, and nearly all agents use the native generator.
  const { makeCsr } = await import('./webcrypto-csr.ts')
  const { algorithm, hash, traditional } = KINDS[type]
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const csrDer = await makeCsr(names, keys, { name: algorithm.name, hash })
  return {
    privateKeyPem: exportPrivateKey(keys.privateKey, format === 'pkcs8' ? PKCS8 : traditional),
    csrDer,
    publicKeyDer: KeyObject.from(keys.publicKey).export({ type: 'spki', format: 'der' }),
  }
}

function exportPrivateKey(key: webcrypto.CryptoKey, form: KeyKind['traditional'] | typeof PKCS8): Buffer {
  const der = KeyObject.from(key).export({ type: form.type, format: 'der' })
  const pem = privateKeyToPem(der, form.label)
  der.fill(0)
  return pem
}

/** Makes one key per core at a time: more would only wait in libuv's queue, and delay an abort. */
async function makeKeys(
  requests: readonly Required<KeyRequest>[],
  signal: AbortSignal | undefined,
): Promise<readonly GeneratedKey[]> {
  const keys: GeneratedKey[] = []
  const turns = requests.entries()
  const takeTurns = async () => {
    for (const [index, request] of turns) {
      signal?.throwIfAborted()
      keys[index] = await makeKey(request)
    }
  }
  const workers = await Promise.allSettled(Array.from({ length: availableParallelism() }, takeTurns))
  const failed = workers.find(worker => worker.status === 'rejected')
  if (!failed) return keys
  wipeAll(keys)
  throw failed.reason
}

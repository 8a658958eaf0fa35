/** Issues key pairs as files bring them: the chain with an intermediate, its key, and the root. */
import type { SpiffeId } from '../spiffe/spiffe-id.ts'
import type { Clock } from '../time/clock.ts'
import { derToPem } from '../x509/pem.ts'
import { makeIssuer, TestCA, type TestIssuer } from './test-ca.ts'
import { TestKeyGenerator } from './test-key-generator.ts'

export interface IssuedPair {
  /** PEM: the leaf, then the intermediate. */
  readonly chain: readonly string[]
  readonly root: string
  readonly key: string
}

export class PairIssuer {
  readonly #ca: TestCA
  readonly #intermediate: TestIssuer
  readonly #keys = new TestKeyGenerator()

  private constructor(ca: TestCA, intermediate: TestIssuer) {
    this.#ca = ca
    this.#intermediate = intermediate
  }

  static async create(clock: Clock): Promise<PairIssuer> {
    const ca = await TestCA.create(clock)
    return new PairIssuer(ca, await makeIssuer('CN=intermediate', clock.now(), ca.newestRoot()))
  }

  get root(): string {
    return this.#ca.newestRoot().pem
  }

  async issue(identity: SpiffeId, ttlSeconds = 3_600): Promise<IssuedPair> {
    const { privateKeyPem, csrDer } = await this.#keys.generate({ type: 'ecdsa-p256', identity, format: 'pkcs8' })
    const csr = { der: csrDer, pem: derToPem(csrDer, 'CERTIFICATE REQUEST') }
    const request = { identity, ttlSeconds, signal: new AbortController().signal, csr: () => Promise.resolve(csr) }
    const { chain } = await this.#ca.sign(request, { issuer: this.#intermediate })
    return {
      chain: [...chain, this.#intermediate.pem],
      root: this.root,
      key: Buffer.from(privateKeyPem).toString(),
    }
  }
}

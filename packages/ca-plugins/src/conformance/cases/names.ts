/** The DNS names of a certificate: those that its CSR asks for, and no others. */
import assert from 'node:assert/strict'
import type { CACapabilities } from '@livery/core/plugin'
import { type BenchCase, type Subject, unlessBringsKey } from '../kit/conformance-case.ts'
import { issue, leafOf } from '../kit/expectations.ts'

const group = 'names'

const unlessGiven = ({ dnsNames = false }: CACapabilities) => (dnsNames ? undefined : 'the CA gives no DNS names')

async function expectNames(on: Subject, ...dnsNames: readonly string[]): Promise<void> {
  const { subjectAltName = '' } = leafOf(await issue(on, { dnsNames }))
  const found = subjectAltName.split(', ').filter(name => !name.startsWith('URI:'))
  assert.deepEqual(
    found.sort(),
    dnsNames.map(name => `DNS:${name}`).sort(),
    'asked for these, the certificate has those',
  )
}

export const nameCases: readonly BenchCase[] = [
  {
    group,
    name: 'a certificate carries the DNS names asked for',
    skip: unlessGiven,
    run: on => expectNames(on, 'web.example', 'web.default.svc.cluster.local'),
  },
  { group, name: 'it carries a wildcard asked for', skip: unlessGiven, run: on => expectNames(on, '*.web.example') },
  {
    group,
    name: 'it carries no name beside its identity where none was asked for',
    skip: unlessBringsKey,
    run: on => expectNames(on),
  },
]

/** Istio and most CAs parse CSRs with Go's crypto/x509, so Go has the last word on ours. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import type { KeyType } from '@livery/core/plugin'
import { temporaryFolder } from '@livery/test-support'
import { without } from '../test/without-program.ts'
import { createKeyGenerator } from './create-key-generator.ts'

const PROGRAM = `package main

import (
	"crypto/x509"
	"fmt"
	"os"
)

func main() {
	for _, path := range os.Args[1:] {
		der, err := os.ReadFile(path)
		if err != nil {
			panic(err)
		}
		csr, err := x509.ParseCertificateRequest(der)
		if err != nil {
			panic(err)
		}
		if err := csr.CheckSignature(); err != nil {
			panic(err)
		}
		fmt.Println(csr.SignatureAlgorithm, csr.URIs, len(csr.Extensions), csr.Extensions[0].Critical, csr.Subject.String() == "")
	}
}
`
const ALGORITHMS: readonly (readonly [KeyType, string])[] = [
  ['ecdsa-p256', 'ECDSA-SHA256'],
  ['ecdsa-p384', 'ECDSA-SHA384'],
  ['rsa-2048', 'SHA256-RSA'],
]

test('Go accepts the CSRs of both generators', { skip: without('go') }, async context => {
  const folder = temporaryFolder(context)
  await writeFile(join(folder, 'go.mod'), 'module csr\n\ngo 1.21\n')
  await writeFile(join(folder, 'main.go'), PROGRAM)
  const files: string[] = []
  const expected: string[] = []
  for (const prefer of ['native', 'webcrypto'] as const) {
    const { generator } = createKeyGenerator({ prefer })
    for (const [type, algorithm] of ALGORITHMS) {
      const { csrDer } = await generator.generate({ type, identity: 'spiffe://cluster.local/ns/default/sa/web' })
      const file = join(folder, `${prefer}-${type}.der`)
      await writeFile(file, csrDer)
      files.push(file)
      expected.push(`${algorithm} [spiffe://cluster.local/ns/default/sa/web] 1 true true`)
    }
  }
  const env = { ...process.env, GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '', GOWORK: 'off' }
  const { stdout } = await promisify(execFile)('go', ['run', '.', ...files], { cwd: folder, env })
  assert.deepEqual(stdout.trimEnd().split('\n'), expected)
})

/** Hundreds of RSA keys of each kind, checked by libraries that share no code with the one that made them. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { temporaryFolder } from '@livery/test-support'
import { without } from '../test/without-program.ts'
import { lookup } from './addon.ts'
import { createKeyGenerator } from './create-key-generator.ts'
import { RSA_KEYS, type RsaKeys } from './defaults.ts'

const run = promisify(execFile)

/** Validate checks the parts against each other and d; primes are tested with 20 rounds of Miller-Rabin and one of Lucas. */
const GO_PROGRAM = `package main

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.pem"))
	if err != nil {
		panic(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		block, rest := pem.Decode(text)
		if len(bytes.TrimSpace(rest)) > 0 {
			panic(file + ": more than one block")
		}
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			panic(file + ": " + err.Error())
		}
		key := parsed.(*rsa.PrivateKey)
		if err := key.Validate(); err != nil {
			panic(file + ": " + err.Error())
		}
		for _, prime := range key.Primes {
			if !prime.ProbablyPrime(20) || prime.BitLen() != 1024 || seen[prime.String()] {
				panic(file + ": not a new prime of 1,024 bits")
			}
			seen[prime.String()] = true
		}
	}
	fmt.Println(len(files), "keys")
}
`

/** The number of keys: ten times as many with LIVERY_SLOW. */
const KEYS: Readonly<Record<RsaKeys, number>> = { simd: 120, search: 80, library: 20 }
const slow = process.env['LIVERY_SLOW'] === '1' ? 10 : 1

for (const rsaKeys of RSA_KEYS) {
  const count = slow * KEYS[rsaKeys]
  const skip = skipReason(rsaKeys)
  test(`OpenSSL finds nothing wrong with ${count} keys by ${rsaKeys}`, {
    skip: skip || without('openssl'),
  }, async context => {
    const files = await keyFiles(context, rsaKeys, count)
    const turns = files.values()
    const takeTurns = async () => {
      for (const file of turns) {
        const { stdout, stderr } = await run('openssl', ['rsa', '-check', '-noout', '-in', file])
        assert.match(stdout + stderr, /RSA key ok/)
      }
    }
    await Promise.all(Array.from({ length: availableParallelism() }, takeTurns))
  })

  test(`Go validates ${count} keys by ${rsaKeys}, and finds their primes prime`, {
    skip: skip || without('go'),
  }, async context => {
    const files = await keyFiles(context, rsaKeys, count)
    const program = temporaryFolder(context)
    await writeFile(join(program, 'go.mod'), 'module keys\n\ngo 1.21\n')
    await writeFile(join(program, 'main.go'), GO_PROGRAM)
    const env = { ...process.env, GOTOOLCHAIN: 'local', GOPROXY: 'off', GOFLAGS: '', GOWORK: 'off' }
    const { stdout } = await run('go', ['run', '.', join(files[0] ?? '', '..')], { cwd: program, env })
    assert.equal(stdout, `${count} keys\n`)
  })
}

function skipReason(rsaKeys: RsaKeys): string | false {
  if (!lookup.addon) return lookup.reason
  return lookup.addon.rsaMethods().includes(rsaKeys) ? false : `this CPU cannot run ${rsaKeys}`
}

async function keyFiles(context: TestContext, rsaKeys: RsaKeys, count: number): Promise<readonly string[]> {
  const folder = temporaryFolder(context)
  const { generator } = createKeyGenerator({ rsaKeys })
  const request = { type: 'rsa-2048', identity: 'spiffe://cluster.local/ns/default/sa/web' } as const
  const keys = await generator.generateBatch(Array.from({ length: count }, () => request))
  return Promise.all(
    keys.map(async ({ privateKeyPem }, index) => {
      const file = join(folder, `${index}.pem`)
      await writeFile(file, privateKeyPem, { mode: 0o600 })
      return file
    }),
  )
}

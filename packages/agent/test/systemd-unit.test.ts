/** The unit in deploy/systemd, judged by systemd's own tools. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '@livery/test-support'
import { EXIT } from '../src/commands/exit-code.ts'

const UNIT = readFileSync(new URL('../../../deploy/systemd/livery.service', import.meta.url), 'utf8')
const TAKEOVER = readFileSync(new URL('../../../deploy/systemd/takeover.conf', import.meta.url), 'utf8')
const PROGRAM = fileURLToPath(new URL('../bin/livery.js', import.meta.url))
/** Of 100, where 100 is a service without any restriction. */
const MOST_EXPOSURE = 20

const { status, stdout } = spawnSync('systemd-analyze', ['--help'], { encoding: 'utf8' })
const skip =
  status !== 0 ? 'no systemd-analyze on PATH' : stdout.includes('--offline') ? false : 'systemd is older than 250'

const folder = temporaryFolder({ after })
const file = join(folder, 'livery.service')
// Nothing is installed here: the program of this repository stands in.
writeFileSync(file, UNIT.replace(/^ExecStart=livery /m, `ExecStart=${PROGRAM} `))

mkdirSync(`${file}.d`)
writeFileSync(join(`${file}.d`, 'takeover.conf'), TAKEOVER.replace(/^ExecStart=livery /m, `ExecStart=${PROGRAM} `))

function analyze(...args: readonly string[]): { readonly status: number | null; readonly output: string } {
  const { status, stdout, stderr } = spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

test('systemd takes every line of the unit and of its drop-in for takeovers', { skip }, () => {
  assert.deepEqual(analyze('verify', '--man=no'), { status: 0, output: '' })
})

test('the unit leaves the program few rights', { skip }, () => {
  const { status, output } = analyze('security', '--offline=true', `--threshold=${MOST_EXPOSURE}`)
  assert.equal(status, 0, output)
  for (const right of ['CapabilityBoundingSet', 'NoNewPrivileges', 'ProtectSystem', 'SystemCallArchitectures'])
    assert.doesNotMatch(output, new RegExp(`✗ ${right}`))
})

test('a usage or configuration error is not tried again', () => {
  assert.match(UNIT, new RegExp(`^RestartPreventExitStatus=${EXIT.usage} ${EXIT.config}$`, 'm'))
})

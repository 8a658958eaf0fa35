/** `npm run set-version`: one command moves the version in all manifests and lockfiles. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { hasCargo, shellEnvironment } from './command.ts'
import { noCopy, WorkingCopy } from './working-copy.ts'

interface Manifest {
  readonly version: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

test('every manifest and lockfile gets the new version, and no other number changes', { skip: noCopy }, async () => {
  using copy = new WorkingCopy({ dependencies: false })
  const read = (file: string): string => readFileSync(join(copy.path, file), 'utf8')
  const files = globSync(['*.json', '{packages,examples}/*/package.json', 'benchmarks/package.json'], {
    cwd: copy.path,
  })
    .filter(file => file.endsWith('package.json'))
    .concat('package-lock.json', 'Cargo.toml', 'Cargo.lock')
  const before = new Map(files.map(file => [file, read(file)]))
  const { version: old }: Manifest = JSON.parse(read('package.json'))
  await using move = copy.start('npm', ['run', 'set-version', '--', '9.8.7'], shellEnvironment())
  assert.equal(await move.code(), 0, move.output)

  for (const file of files) {
    const changed = read(file)
      .split('\n')
      .filter((line, index) => line !== before.get(file)?.split('\n')[index])
    assert.ok(changed.length > 0, file)
    for (const line of changed) assert.match(line, /^\s*"?(version|@livery\/[\w-]+)"?( =|:) "9\.8\.7",?$/, file)
    if (!file.endsWith('package.json')) continue
    const { version, dependencies, devDependencies, peerDependencies }: Manifest = JSON.parse(read(file))
    const ours = Object.entries({ ...dependencies, ...devDependencies, ...peerDependencies }).filter(([name]) =>
      name.startsWith('@livery/'),
    )
    assert.deepEqual(new Set([version, ...ours.map(([, range]) => range)]), new Set(['9.8.7']), file)
  }
  const crates = [...read('Cargo.lock').matchAll(/name = "livery-.*"\nversion = "(.*)"/g)].map(([, version]) => version)
  assert.deepEqual(new Set(crates), new Set(['9.8.7']))
  assert.notEqual(old, '9.8.7')
  if (hasCargo())
    execFileSync('cargo', ['metadata', '--locked', '--format-version', '1'], { cwd: copy.path, stdio: 'pipe' })
})

test('the chart, its plain manifests and the page about them get the new version', { skip: noCopy }, async () => {
  using copy = new WorkingCopy({ dependencies: false })
  await using move = copy.start('npm', ['run', 'set-version', '--', '9.8.7'], shellEnvironment())
  assert.equal(await move.code(), 0, move.output)
  const chart = readFileSync(join(copy.path, 'deploy/helm/livery/Chart.yaml'), 'utf8')
  assert.match(chart, /^version: 9\.8\.7\nappVersion: "9\.8\.7"$/m)
  const files = globSync(['deploy/kubernetes/*.yaml', 'docs/start/kubernetes.md'], { cwd: copy.path })
  assert.ok(files.length > 1)
  for (const file of files) {
    const text = readFileSync(join(copy.path, file), 'utf8')
    const versions = text.match(/(?<=livery\/livery:|io\/version: ")[^\s"]+/g) ?? []
    assert.deepEqual(new Set(versions), new Set(['9.8.7']), file)
  }
})

test('an invalid version is refused', { skip: noCopy }, async () => {
  using copy = new WorkingCopy({ dependencies: false })
  await using move = copy.start('npm', ['run', 'set-version', '--', 'v2'], shellEnvironment())
  assert.equal(await move.code(), 2)
  assert.match(move.output, /"v2" is not a version: write one such as 0\.2\.0/)
})

/** A copy of the repository with its dependencies and nothing built: what the commands of the README start from. */
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Command } from './command.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))

/** Why no copy can be made here, or `false`. */
export const noCopy: string | false =
  process.platform === 'linux'
    ? false
    : 'the copy needs hard links of directories by cp and processes from /proc: Linux only'

interface CopyOptions {
  /** Default: true. */
  readonly dependencies?: boolean
}

export class WorkingCopy implements Disposable {
  /** Inside `.cache`, since hard links stay on one file system. */
  readonly path: string

  constructor({ dependencies = true }: CopyOptions = {}) {
    const cache = join(ROOT, '.cache')
    mkdirSync(cache, { recursive: true })
    this.path = mkdtempSync(join(cache, 'copy-'))
    const files = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: ROOT })
    const present = files
      .toString()
      .split('\0')
      .filter(file => file !== '' && existsSync(join(ROOT, file)))
    execFileSync('cp', ['--parents', '-t', this.path, ...present], { cwd: ROOT })
    if (!dependencies) return
    mkdirSync(join(this.path, '.cache'))
    for (const envoy of globSync('envoy-*.*', { cwd: cache }))
      linkSync(join(cache, envoy), join(this.path, '.cache', envoy))
    for (const folder of [
      '.',
      'benchmarks',
      ...readdirSync(join(ROOT, 'packages')).map(name => join('packages', name)),
    ]) {
      const modules = join(ROOT, folder, 'node_modules')
      if (existsSync(modules)) execFileSync('cp', ['-al', modules, join(this.path, folder)])
    }
  }

  start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Command {
    return new Command(command, args, { cwd: this.path, env })
  }

  /** Programs that run in the copy, by their process id. */
  processes(): readonly number[] {
    return readdirSync('/proc')
      .filter(name => /^\d+$/.test(name) && workingDirectory(name).startsWith(this.path))
      .map(Number)
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

function workingDirectory(pid: string): string {
  try {
    return readlinkSync(join('/proc', pid, 'cwd'))
  } catch {
    // It has ended, or is not ours.
    return ''
  }
}

/** Commands that run the one behind them as in the container of a pod: in its control group, with its mounts, as its user. They can follow each other. */
import { spawnSync } from 'node:child_process'

/** Why tests cannot mount what a pod has, or `false`. */
export const noMounts: string | false =
  spawnSync('unshare', ['--mount', 'sh', '-c', 'mount -t tmpfs none /run && setpriv --version']).status === 0
    ? false
    : 'needs root, unshare and setpriv, for the mounts of a pod'

/** Into a control group. */
export function inGroup(group: string): readonly string[] {
  return ['sh', '-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', group]
}

/** With an empty /run over that of the machine, and in it the files of the service account below `root`, where kubelet mounts them. */
export function withAccount(root: string): readonly string[] {
  const script = 'mount -t tmpfs none /run && cp -r "$0/var/run/secrets" /run && exec "$@"'
  return ['unshare', '--mount', 'sh', '-c', script, root]
}

/** With the folder `from` mounted at `to`, which is made. */
export function withFolder(from: string, to: string): readonly string[] {
  const script = 'mkdir -p "$1" && mount --bind "$0" "$1" && shift && exec "$@"'
  return ['unshare', '--mount', 'sh', '-c', script, from, to]
}

/** With the file `from` mounted over `to`, which is there. */
export function withFile(from: string, to: string): readonly string[] {
  return ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" "$1" && shift && exec "$@"', from, to]
}

/** As the user and group `id`, who has these capabilities and gets no others. */
export function asUser(id: number, ...capabilities: readonly string[]): readonly string[] {
  const set = ['-all', ...capabilities.map(name => `+${name}`)].join()
  const user = [`--reuid=${id}`, `--regid=${id}`, '--clear-groups', '--no-new-privs']
  return ['setpriv', ...user, `--inh-caps=${set}`, `--ambient-caps=${set}`, `--bounding-set=${set}`]
}

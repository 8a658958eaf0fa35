/** Finds the pod of a process in the text of its `/proc/PID/cgroup` (cgroups(7)), by kubelet's names of pod groups. */

/** A pod, and its container where the path continues to one. */
interface PodCgroup {
  readonly uid: string
  readonly container: string | undefined
}

/** A path with a group named like a pod's. */
interface PodPath extends PodCgroup {
  readonly path: string
  /** The groups above kubelet's, without slashes at its ends; `undefined` if the group is not where kubelet makes them. */
  readonly root: string | undefined
}

const QOS = 'besteffort|burstable'
/** The UID of a pod, or the hash of a static one, with dashes and in systemd's form. */
const UID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}'
const SYSTEMD_UID = UID.replaceAll('-[', '_[')
/** kubelet's cgroupfs driver: `pod<uid>`. */
const FOLDER = new RegExp(`^pod(${UID})$`)
/**
 * kubelet's systemd driver: `kubepods-burstable-pod<uid>.slice`. A runtime with the other driver merges it with its own name
 * into one folder: `kubepods-burstable-pod<uid>.slice:cri-containerd:<container>`.
 */
const SLICE = new RegExp(
  `^((?:[^-/:]+-)*kubepods(?:-(?:${QOS}))?)-pod(${SYSTEMD_UID})\\.slice(?::[a-z-]+:([0-9a-f]{64}))?$`,
)
const CONTAINER = /^(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?$/
const QOS_FOLDER = new RegExp(`^(?:${QOS})$`)
const MAX_SHOWN = 3
const MAX_SHOWN_LENGTH = 300

/**
 * The pod of a process, or a description of what was found instead.
 *
 * Only the outermost group named like a pod's counts: a container can be allowed to make groups below its own, under any
 * name. That group has to be where kubelet makes them, below one of `roots`: a user's service manager also makes groups
 * for that user. All hierarchies that name a pod must agree.
 */
export function findPod(text: string, roots: readonly string[]): PodCgroup | { readonly problem: string } {
  const paths = pathsOf(text)
  const pods = paths.flatMap(path => parsePodPath(path) ?? [])
  const trusted = pods.filter(({ root }) => root !== undefined && roots.includes(root))
  const [pod] = trusted
  if (pod && trusted.every(({ uid }) => uid === pod.uid))
    return { uid: pod.uid, container: trusted.find(({ container }) => container !== undefined)?.container }
  if (pod) return { problem: `its control groups belong to two pods: ${quote(trusted.map(({ uid }) => uid))}` }
  if (pods.length === 0) return { problem: `it is in no pod: its control groups are ${quote(paths)}` }
  const where = `${quote(pods.map(({ path }) => path))} is not below ${quote(roots.map(root => `/${root}`))}, where kubelet's groups are`
  return { problem: `it is in no pod: its control group ${where} (kubernetes.cgroupRoot)` }
}

/** The roots of kubelet's groups: the groups above the agent's own pod, or the top. */
export function findRoots(ownText: string): readonly string[] {
  const roots = pathsOf(ownText).flatMap(path => parsePodPath(path)?.root ?? [])
  return roots.length > 0 ? [...new Set(roots)] : ['']
}

/** Brings a root to the form of `PodPath.root`. */
export function normalizeRoot(root: string): string {
  return root.split('/').filter(Boolean).join('/')
}

/** Each line is `<hierarchy>:<controllers>:<path>`; a path has no line feed, and can have colons. */
function pathsOf(text: string): readonly string[] {
  return text.split('\n').flatMap(line => /^\d+:[^:]*:(\/.*)$/s.exec(line)?.[1] ?? [])
}

function parsePodPath(path: string): PodPath | undefined {
  const all = path.split('/').slice(1)
  const first = all.findIndex(name => name !== '..')
  const names = first < 0 ? [] : all.slice(first)
  for (const [index, name] of names.entries()) {
    const pod = parsePodName(name, names[index - 1])
    if (!pod) continue
    const { uid, parents } = pod
    const container = pod.container ?? CONTAINER.exec(names[index + 1] ?? '')?.[1]
    // A path seen from another cgroup namespace begins below the common groups.
    return { path, uid, container, root: rootAbove(names.slice(0, index), parents, first > 0) }
  }
  return undefined
}

interface PodName extends PodCgroup {
  /** kubelet's groups above it, the innermost first. */
  readonly parents: readonly string[]
}

function parsePodName(name: string, above = ''): PodName | undefined {
  const folder = FOLDER.exec(name)?.[1]
  if (folder !== undefined)
    return { uid: folder, container: undefined, parents: QOS_FOLDER.test(above) ? [above, 'kubepods'] : ['kubepods'] }
  const [, prefix, uid, container] = SLICE.exec(name) ?? []
  if (prefix === undefined || uid === undefined) return undefined
  return { uid: uid.replaceAll('_', '-'), container, parents: container === undefined ? slicesOf(prefix) : [] }
}

/** `a-b` → `a-b.slice`, `a.slice`: systemd nests slices by name. */
function slicesOf(prefix: string): readonly string[] {
  const parts = prefix.split('-')
  return parts.map((_, index) => `${parts.slice(0, parts.length - index).join('-')}.slice`)
}

function rootAbove(above: readonly string[], parents: readonly string[], isRelative: boolean): string | undefined {
  const other = parents.findIndex((parent, index) => above.at(-1 - index) !== parent)
  const present = other < 0 ? parents.length : other
  if (other >= 0 && !(isRelative && present === above.length)) return undefined
  return above.slice(0, above.length - present).join('/')
}

/** Group names can be long, and contain any character. */
function quote(names: readonly string[]): string {
  const different = [...new Set(names)]
  const shown = different.slice(0, MAX_SHOWN).map(name => JSON.stringify(name.slice(0, MAX_SHOWN_LENGTH)))
  return shown.join(', ') + (different.length > MAX_SHOWN ? ', ...' : '')
}

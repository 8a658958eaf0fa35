/** Checks across settings: values that conflict, and a configuration that would serve nothing. */
import { isFileName } from '@livery/core/file-secrets'
import { MAX_SOCKET_PATH_BYTES, trustDomainProblem } from '@livery/core/plugin'
import type { Problem } from '../schema/config-error.ts'
import type { Location } from '../schema/config-tree.ts'
import { Fault } from '../schema/fault.ts'
import type { ConfiguredIdentity, ExpandedIdentities, NamedSocket } from './identities.ts'
import { parseDnsTemplate, parseIdentityTemplate } from './identity-template.ts'
import type { Settings } from './schema.ts'

/** `at` is the root. */
export function checkTogether(
  settings: Settings,
  { identities, sockets }: ExpandedIdentities,
  at: Location,
): readonly Problem[] {
  return [
    ...checkCeiling(identities, settings, at),
    ...checkSocketPaths(settings, sockets, at),
    ...checkServed(settings, sockets, at),
    ...checkPairs(settings, at),
    ...checkIdentify(settings, at),
    ...checkFederated(settings, at),
    ...checkFileNames(settings, at),
    ...checkKubernetes(settings, at),
  ]
}

function checkCeiling(
  identities: readonly ConfiguredIdentity[],
  { maxIdentities }: Settings,
  at: Location,
): readonly Problem[] {
  const count = identities.length
  if (count <= maxIdentities) return []
  const reason = `${maxIdentities} is fewer than the ${count} under identities`
  return [at.child('maxIdentities').problem(new Fault(reason, `Write ${count} or more, at about 12 KB of memory each`))]
}

function checkSocketPaths(
  { admin, sockets }: Settings,
  ownSockets: readonly NamedSocket[],
  at: Location,
): readonly Problem[] {
  const { address } = admin
  const all: readonly NamedSocket[] = [
    ...('path' in address ? [{ socket: address.path, key: at.child('admin', 'address') }] : []),
    ...sockets.map(({ path }, index) => ({ socket: path, key: at.child('sockets', index, 'path') })),
    ...ownSockets,
  ]
  const seen = new Set<string>()
  // One problem per key: a range has one socket per identity.
  const problems = new Map<string, Problem>()
  const refuse = (key: Location, reason: string, remedy: string): void => {
    const problem = key.problem(new Fault(reason, remedy))
    if (!problems.has(problem.path)) problems.set(problem.path, problem)
  }
  for (const { socket, key } of all) {
    const bytes = Buffer.byteLength(socket)
    const tooLong = `${socket} is ${bytes} bytes long, and the kernel allows ${MAX_SOCKET_PATH_BYTES}`
    // A default that is too long costs the admin endpoint, but no identity.
    if (bytes > MAX_SOCKET_PATH_BYTES && key.origin.kind !== 'default') refuse(key, tooLong, 'Choose a shorter path')
    if (seen.has(socket)) refuse(key, `${socket} is the path of another socket too`, 'Give each its own')
    seen.add(socket)
  }
  return [...problems.values()]
}

const NO_SIDECAR = new Fault(
  'nothing would be served: SERVICE_ACCOUNT and POD_NAMESPACE, from which the profile makes the identity and its socket, are not both set',
  "Set both, as Istio's injector does, or write identities and sockets",
)

function checkServed(
  { sockets, identities, kubernetes, kubernetesSecrets, profile }: Settings,
  ownSockets: readonly NamedSocket[],
  at: Location,
): readonly Problem[] {
  const hasSocket = sockets.length > 0 || ownSockets.length > 0
  const isOfCluster = kubernetes !== undefined || kubernetesSecrets !== undefined
  const hasIdentity = identities.length > 0 || isOfCluster || sockets.some(({ onDemand }) => onDemand)
  if (profile && !hasSocket && !hasIdentity) return [at.child('profile').problem(NO_SIDECAR)]
  const noSocket = new Fault(
    'nothing would be served: there is no socket',
    kubernetes
      ? 'Add one for the pods: sockets: [{ path: /run/livery/pods/socket, mode: "0666", identify: kubernetes }]'
      : 'Add one under sockets, or give an identity its own',
  )
  const noIdentity = new Fault('nothing would be served: there is no identity', 'Add one')
  return [
    ...(hasSocket ? [] : [at.child('sockets').problem(noSocket)]),
    ...(hasIdentity ? [] : [at.child('identities').problem(noIdentity)]),
  ]
}

function checkKubernetes({ kubernetes, trustDomain }: Settings, at: Location): readonly Problem[] {
  if (!kubernetes) return []
  const { identity, dnsNames = [] } = kubernetes
  const key = at.child('kubernetes')
  const refusals = (template: string, parsed: object, where: Location, example: string) =>
    'problem' in parsed
      ? [where.problem(new Fault(`${JSON.stringify(template)} ${parsed.problem}`, `Write such as ${example}`))]
      : []
  return [
    ...refusals(
      identity,
      parseIdentityTemplate(identity, trustDomain),
      key.child('identity'),
      'spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}',
    ),
    ...dnsNames.flatMap((template, index) =>
      refusals(
        template,
        parseDnsTemplate(template, trustDomain),
        key.child('dnsNames', index),
        '{serviceAccount}.{namespace}.svc.cluster.local',
      ),
    ),
  ]
}

function checkIdentify({ sockets, identities, kubernetes }: Settings, at: Location): readonly Problem[] {
  const all = [
    ...sockets.map((socket, index) => ({ socket, key: at.child('sockets', index) })),
    ...identities.map(({ socket }, index) => ({ socket, key: at.child('identities', index, 'socket') })),
  ]
  return all.flatMap(({ socket, key }) => {
    if (socket?.identify) {
      const missing = new Fault('needs the section kubernetes', 'Write kubernetes: { nodeName }')
      return kubernetes ? [] : [key.child('identify').problem(missing)]
    }
    const fault = new Fault('is for a socket that identifies its callers', 'Write identify: kubernetes beside callers')
    const callers: readonly { readonly selectors?: unknown }[] = socket?.callers ?? []
    return callers.flatMap(({ selectors }, index) =>
      selectors === undefined ? [] : [key.child('callers', index, 'selectors').problem(fault)],
    )
  })
}

/** Core's limit of trust domains, excluding the agent's own. */
const MAX_FEDERATED = 99

function checkFederated({ trustDomain, trust: { federated } }: Settings, at: Location): readonly Problem[] {
  const names = Object.keys(federated)
  const problems = names.flatMap(name => {
    const problem = trustDomainProblem(name)
    const key = at.child('trust', 'federated', name)
    if (problem !== undefined)
      return [key.problem(new Fault(`is not a trust domain: it ${problem}`, 'Write a name such as other.example'))]
    const own = new Fault('is the trust domain of this agent', 'List its roots under trust.anchors')
    return name === trustDomain ? [key.problem(own)] : []
  })
  if (names.length <= MAX_FEDERATED) return problems
  const reason = `it names ${names.length} trust domains, more than ${MAX_FEDERATED}`
  return [...problems, at.child('trust', 'federated').problem(new Fault(reason, 'Remove some'))]
}

/** A name whose form has a meaning could mean something else on another agent. */
function checkFileNames({ files, names }: Settings, at: Location): readonly Problem[] {
  const wellKnown = Object.values(names)
  const remedy = 'Choose one of another form, such as sds://NAME'
  return Object.keys(files.names).flatMap(name => {
    const hasMeaning = name.startsWith('spiffe://') || isFileName(name) || wellKnown.includes(name)
    const reason = name === '' ? 'is empty' : 'has a meaning already'
    return hasMeaning || name === '' ? [at.child('files', 'names', name).problem(new Fault(reason, remedy))] : []
  })
}

function checkPairs({ retry, rotation, names, admin }: Settings, at: Location): readonly Problem[] {
  const problems: Problem[] = []
  for (const key of ['mode', 'owner', 'group'] as const) {
    if ('path' in admin.address || admin[key] === undefined) continue
    problems.push(
      at.child('admin', key).problem(new Fault('is for a UNIX socket', 'Write address: unix:/path, or remove it')),
    )
  }
  for (const [key, other] of [
    ['root', 'default'],
    ['all', 'default'],
    ['all', 'root'],
  ] as const)
    if (names[key] === names[other])
      problems.push(at.child('names', key).problem(new Fault(`is the same as names.${other}`, 'Choose another')))
  if (retry.min > retry.max)
    problems.push(at.child('retry', 'min').problem(new Fault('is longer than retry.max', 'Swap them')))
  const { ratio, jitter, survive } = rotation
  if (survive !== undefined && at.child('rotation', 'ratio').origin.kind !== 'default') {
    const fault = new Fault('is written beside rotation.ratio, and both say when to renew', 'Remove one of them')
    problems.push(at.child('rotation', 'survive').problem(fault))
  }
  if (ratio - jitter <= 0 || ratio + jitter >= 1) {
    const remedy = 'Keep ratio - jitter over 0 and ratio + jitter under 1'
    problems.push(
      at.child('rotation', 'ratio').problem(new Fault(`${ratio} ± jitter ${jitter} leaves the lifetime`, remedy)),
    )
  }
  return problems
}

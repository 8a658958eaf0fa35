/** The pods that are found in /proc/PID/cgroup, as nodes of many kinds have it, and the names that mislead. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findPod, findRoots, normalizeRoot } from './pod-cgroup.ts'

const UID = '0f188573-8e4f-11ea-a9a0-42010a800047'
const OTHER = 'daa5c7ee-3484-4533-af39-3591564fd03e'
const HASH = '5e1d2a3b4c5d6e7f8091a2b3c4d5e6f7'
const CONTAINER = 'a5f33a8bc7e275a722763a9d46f432c59b35bb3edbd8dab7cf77148e90916cde'
const underscored = (uid: string) => uid.replaceAll('-', '_')
const DOCKER = 'docker/8d461fa5765781bcf5f7eb192f101bc3103d4b932e26236f43feecfa20664f96'
const slice = (uid: string, qos = 'burstable') =>
  `kubepods.slice/kubepods-${qos}.slice/kubepods-${qos}-pod${underscored(uid)}.slice`

/** As cgroups(7) has it for cgroup v2. */
const v2 = (path: string) => `0::${path}\n`
/** Version 1, with a named hierarchy and one that nothing uses. */
const v1 = (path: string, unified?: string) =>
  `11:hugetlb:/\n4:cpu,cpuacct:${path}\n2:memory:${path}\n1:name=systemd:${path}\n${unified === undefined ? '' : v2(unified)}`

for (const [what, text, uid, container = CONTAINER] of [
  ['v2, systemd, containerd', v2(`/${slice(UID)}/cri-containerd-${CONTAINER}.scope`), UID],
  ['v2, systemd, CRI-O', v2(`/${slice(UID)}/crio-${CONTAINER}.scope/container`), UID],
  ['v2, systemd, Docker', v2(`/${slice(UID, 'besteffort')}/docker-${CONTAINER}.scope`), UID],
  ['v2, systemd, guaranteed', v2(`/kubepods.slice/kubepods-pod${underscored(UID)}.slice/crio-${CONTAINER}.scope`), UID],
  ['v2, cgroupfs', v2(`/kubepods/burstable/pod${UID}/${CONTAINER}`), UID],
  ['v2, cgroupfs, guaranteed', v2(`/kubepods/pod${UID}/${CONTAINER}`), UID],
  ['v2, a static pod, systemd', v2(`/${slice(HASH)}/cri-containerd-${CONTAINER}.scope`), HASH],
  ['v2, a static pod, cgroupfs', v2(`/kubepods/burstable/pod${HASH}/${CONTAINER}`), HASH],
  ['v2, groups below the container', v2(`/${slice(UID)}/cri-containerd-${CONTAINER}.scope/init.scope/a:b`), UID],
  ['v2, the group of the pod itself', v2(`/${slice(UID)}`), UID, null],
  ['v2, a runtime that is not a container', v2(`/${slice(UID)}/kata_overhead`), UID, null],
  ['v1, cgroupfs', v1(`/kubepods/besteffort/pod${UID}/${CONTAINER}`), UID],
  ['v1, systemd', v1(`/${slice(UID)}/cri-containerd-${CONTAINER}.scope`), UID],
  ['hybrid', v1(`/${slice(UID)}/crio-${CONTAINER}.scope`, '/system.slice/containerd.service'), UID],
  [
    'hybrid, the container in one hierarchy only',
    `3:pids:/${slice(UID)}\n2:cpu:/${slice(UID)}/crio-${CONTAINER}.scope\n0::/\n`,
    UID,
  ],
  [
    'a cgroup namespace, systemd',
    v2(`/../../kubepods-besteffort-pod${underscored(UID)}.slice/cri-containerd-${CONTAINER}.scope`),
    UID,
  ],
  [
    'a cgroup namespace, systemd, another class',
    v2(`/../../../${slice(UID).replace('kubepods.slice/', '')}/crio-${CONTAINER}.scope`),
    UID,
  ],
  ['a cgroup namespace, cgroupfs', v2(`/../../pod${UID}/${CONTAINER}`), UID],
  ['a cgroup namespace, cgroupfs, another class', v2(`/../../../burstable/pod${UID}/${CONTAINER}`), UID],
  ['a cgroup namespace, the top', v2(`/../../../../kubepods/burstable/pod${UID}/${CONTAINER}`), UID],
] as const)
  test(`${what}: the pod is found`, () => {
    assert.deepEqual(findPod(text, ['']), { uid, container: container ?? undefined })
  })

for (const [what, root, path] of [
  ['kind, v1', DOCKER, `/${DOCKER}/kubepods/besteffort/pod${UID}/${CONTAINER}`],
  ['kind with a root of kubelet', `${DOCKER}/kubelet`, `/${DOCKER}/kubelet/kubepods/burstable/pod${UID}/${CONTAINER}`],
  [
    'a root of kubelet, systemd',
    'system.slice/docker-1.scope',
    `/system.slice/docker-1.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod${underscored(UID)}.slice/cri-containerd-${CONTAINER}.scope`,
  ],
  [
    'kubelet with the systemd driver, containerd with the other',
    'system.slice/containerd.service',
    `/system.slice/containerd.service/kubepods-burstable-pod${underscored(UID)}.slice:cri-containerd:${CONTAINER}`,
  ],
] as const)
  test(`${what}: the pod is found below its root alone, which an agent in a pod there knows`, () => {
    const pod = { uid: UID, container: CONTAINER }
    assert.deepEqual(findPod(v2(path), [root]), pod)
    assert.deepEqual(findRoots(v2(path.replace(UID, OTHER).replace(underscored(UID), underscored(OTHER)))), [root])
    const refused = findPod(v2(path), [''])
    assert.match('problem' in refused ? refused.problem : '', /not below "\/", where kubelet's groups are.*cgroupRoot/)
    const relative = path.replace(/^/, '/../..')
    assert.deepEqual(findPod(v2(relative), [root]), pod)
  })

test('the roots are the top where the agent is in no pod, or in a separate cgroup namespace', () => {
  for (const text of [v2('/'), v2('/system.slice/livery.service'), v1('/system.slice/livery.service', '/'), ''])
    assert.deepEqual(findRoots(text), [''])
  assert.deepEqual(findRoots(v1(`/kubepods/pod${UID}/${CONTAINER}`, '/')), [''])
})

test('a root is compared without slashes at its ends', () => {
  assert.deepEqual(['/', '', '/kubelet', 'kubelet/', '//a//b/'].map(normalizeRoot), [
    '',
    '',
    'kubelet',
    'kubelet',
    'a/b',
  ])
})

/** A group of pod OTHER within one of pod UID. */
for (const [what, path] of [
  ['below the container, cgroupfs', `/kubepods/pod${UID}/${CONTAINER}/kubepods/pod${OTHER}/${CONTAINER}`],
  ['below the container, systemd', `/${slice(UID)}/crio-${CONTAINER}.scope/${slice(OTHER)}/crio-${CONTAINER}.scope`],
  ['without groups of kubelet', `/${slice(UID)}/crio-${CONTAINER}.scope/pod${OTHER}`],
  ['in another driver', `/kubepods/burstable/pod${UID}/${CONTAINER}/${slice(OTHER)}`],
  ['as a runtime of another driver', `/${slice(UID)}/x/kubepods-pod${underscored(OTHER)}.slice:crio:${CONTAINER}`],
  ['after dots', `/../../pod${UID}/${CONTAINER}/../../pod${OTHER}/${CONTAINER}`],
  ['in Docker in the pod', `/kubepods/pod${UID}/${CONTAINER}/${DOCKER}/kubelet/kubepods/pod${OTHER}/${CONTAINER}`],
] as const)
  test(`a group that a container names like another pod, ${what}: the outermost pod counts`, () => {
    const found = findPod(v2(path), [''])
    assert.equal('uid' in found ? found.uid : found.problem, UID)
  })

for (const [what, path] of [
  ['of a user, systemd', `/user.slice/user-1000.slice/user@1000.service/${slice(UID)}/crio-${CONTAINER}.scope`],
  ['of a user, cgroupfs', `/user.slice/user-1000.slice/user@1000.service/kubepods/pod${UID}/${CONTAINER}`],
  [
    'of a user, seen from a cgroup namespace',
    `/../../../../user.slice/user-1000.slice/user@1000.service/kubepods/pod${UID}`,
  ],
  [
    'of a user, in the form of a misconfigured runtime',
    `/user.slice/x/kubepods-pod${underscored(UID)}.slice:crio:${CONTAINER}`,
  ],
  ['of a service', `/system.slice/app.service/kubepods/burstable/pod${UID}/${CONTAINER}`],
  ['of a container of Docker', `/${DOCKER}/kubepods/burstable/pod${UID}/${CONTAINER}`],
  [
    'of a pod whose UID has another form',
    `/kubepods.slice/kubepods-podmine.slice/crio-${CONTAINER}.scope/${slice(UID)}`,
  ],
  ['without kubepods', `/burstable/pod${UID}/${CONTAINER}`],
  ['at the top, cgroupfs', `/pod${UID}/${CONTAINER}`],
  ['at the top, systemd', `/kubepods-burstable-pod${underscored(UID)}.slice/crio-${CONTAINER}.scope`],
  [
    'in a slice of another name',
    `/user.slice/kubepods-burstable.slice/kubepods-burstable-pod${underscored(UID)}.slice`,
  ],
  ['in slices of another name, relative', `/../evil/kubepods-burstable-pod${underscored(UID)}.slice`],
  ['below another folder, relative', `/../../evil/pod${UID}/${CONTAINER}`],
] as const)
  test(`a group named like a pod's, ${what}, is in no pod`, () => {
    const found = findPod(v2(path), [''])
    assert.match(
      'problem' in found ? found.problem : found.uid,
      /^it is in no pod: its control group .* is not below "\/"/,
    )
  })

for (const [what, text] of [
  ['nothing', ''],
  ['the top', v2('/')],
  ['a system service', v2('/system.slice/crio-conmon-1.scope')],
  ['a UID too short', v2(`/kubepods/pod${UID.slice(1)}/x`)],
  ['a UID too long', v2(`/kubepods/pod${UID}0/x`)],
  ['a UID in capitals', v2(`/kubepods/pod${UID.toUpperCase()}/x`)],
  ['a UID with dashes in a slice', v2(`/kubepods.slice/kubepods-pod${UID}.slice/x`)],
  ['a UID with lines below in a folder', v2(`/kubepods/pod${underscored(UID)}/x`)],
  ['another prefix', v2(`/kubepods/xpod${UID}/x`)],
  ['no path', `0::kubepods/pod${UID}\n`],
  ['no hierarchy', `/kubepods/pod${UID}\n`],
] as const)
  test(`${what} is in no pod`, () => {
    const found = findPod(text, [''])
    assert.match('problem' in found ? found.problem : found.uid, /^it is in no pod: its control groups are/)
  })

test('hierarchies that name two pods are refused with both', () => {
  const found = findPod(`2:cpu:/kubepods/pod${UID}/x\n1:pids:/kubepods/pod${OTHER}/x\n`, [''])
  assert.match('problem' in found ? found.problem : found.uid, new RegExp(`two pods: "${UID}", "${OTHER}"`))
})

test('a hostile name is shown escaped and cut, and takes no long time', () => {
  const evil = `/\u001b[31m"${'x'.repeat(4_000)}`
  const found = findPod(Array.from({ length: 12 }, (_, id) => `${id}:c${id}:${evil}${id}\n`).join(''), [''])
  assert.ok('problem' in found)
  assert.ok(found.problem.length < 1_100, `${found.problem.length}`)
  assert.match(found.problem, /"\/\\u001b\[31m\\"x/)
  const start = process.cpuUsage()
  for (const name of ['pod/', 'kubepods-'.repeat(400), `${'a-'.repeat(2_000)}kubepods-pod`])
    findPod(v2(`/${name.repeat(Math.ceil(4_000 / name.length))}`), [''])
  assert.ok(process.cpuUsage(start).user < 50_000)
})

/** The pods of this node as the API server last described them, each with its identity. */
import { isDeepStrictEqual } from 'node:util'
import { Events } from '@livery/core'
import type { PodFacts } from '../config/identity-template.ts'
import type { Pod, PodChange, PodTable } from './pod.ts'
import { type PodObject, readPodObject, type UnusableObject } from './pod-object.ts'
import { dnsNamesOf, identityOf, type PodRules } from './pod-rules.ts'

/** A kubelet runs 110 by default; some providers allow 1,000. */
const MAX_PODS = 4_096

/** Why an object of the API server yields no pod, or its pod no identity. */
export interface PodProblem {
  /** `namespace/name`, where that can be read. */
  readonly pod: string | undefined
  /** The template of the missing DNS name, where the pod has an identity. */
  readonly dnsName?: string
  readonly reason: string
}

interface Known {
  readonly pod: Pod
  /** Why it has no identity though it is chosen, or lacks a DNS name. */
  readonly problems: readonly Omit<PodProblem, 'pod'>[]
  readonly isMirror: boolean
}

/** Which objects of the API server are the pods of a node. */
export function podsOf(nodeName: string) {
  return {
    path: '/api/v1/pods',
    fieldSelector: `spec.nodeName=${nodeName}`,
    resource: 'pods',
    what: 'the pods of this node',
  } as const
}

export class NodePods implements PodTable {
  readonly maxObjects = MAX_PODS
  readonly changes = new Events<PodChange>()
  readonly #nodeName: string
  readonly #rules: PodRules
  readonly #report: (problem: PodProblem) => void
  /** Keyed by the UID of the API server's object. */
  readonly #objects = new Map<string, Known>()
  /** The object's UID, keyed by the UID on the node. */
  readonly #byUid = new Map<string, string>()
  /** Why objects are refused, by their UID, so that each is reported once. */
  readonly #refused = new Map<string, string>()

  #isListed = false

  /** `report` is called once for each pod and reason, until the pod is gone. */
  constructor(nodeName: string, rules: PodRules, report: (problem: PodProblem) => void) {
    this.#nodeName = nodeName
    this.#rules = rules
    this.#report = report
  }

  /** Whether a whole list has come. */
  get isListed(): boolean {
    return this.#isListed
  }

  get(uid: string): Pod | undefined {
    return this.#objects.get(this.#byUid.get(uid) ?? '')?.pod
  }

  *all(): Iterable<Pod> {
    for (const { pod } of this.#objects.values()) yield pod
  }

  /** `chosen`: how many have an identity. */
  get counts(): { readonly known: number; readonly chosen: number } {
    let chosen = 0
    for (const { pod } of this.#objects.values()) if (pod.identity !== undefined) chosen++
    return { known: this.#objects.size, chosen }
  }

  /** Takes an object that was added or changed. */
  put(value: unknown): void {
    this.#put(this.read(value))
  }

  /** Removes the pod of an object that was deleted. */
  delete(value: unknown): void {
    const { uid } = Object(Object(value).metadata)
    if (typeof uid === 'string') this.#remove(uid)
  }

  /** Replaces all objects. */
  replace(objects: readonly (PodObject | UnusableObject)[]): void {
    this.#isListed = true
    const listed = new Set(objects.map(({ uid }) => uid))
    for (const uid of [...this.#objects.keys(), ...this.#refused.keys()]) if (!listed.has(uid)) this.#remove(uid)
    for (const object of objects) this.#put(object)
  }

  /** Keeps the needed part of an object, for {@link replace}. */
  read(value: unknown): PodObject | UnusableObject {
    const nodeName = this.#nodeName
    const rules = this.#rules
    return readPodObject(
      value,
      nodeName,
      [rules.template, ...rules.dnsNames].flatMap(({ annotations }) => annotations),
    )
  }

  /** An unusable object changes nothing of a known pod. */
  #put(object: PodObject | UnusableObject): void {
    if ('problem' in object) this.#refuse(object.uid ?? '', { pod: undefined, reason: object.problem })
    else if (object.hasEnded) this.#remove(object.uid)
    else this.#take(object)
  }

  #take({ uid, pod: facts, isMirror }: PodObject): void {
    const before = this.#objects.get(uid)
    const isKnown = before?.pod.uid === facts.uid
    const refusal = isKnown ? undefined : this.#refusal(facts, isMirror)
    if (refusal !== undefined) {
      this.#refuse(uid, { pod: nameOf(facts), reason: refusal })
      return
    }
    const { pod, problems } = this.#describe(facts)
    if (before && isDeepStrictEqual(before.pod, pod)) return
    if (isKnown) this.#refused.delete(uid)
    else this.#remove(uid)
    this.#objects.set(uid, { pod, problems, isMirror })
    this.#byUid.set(pod.uid, uid)
    for (const problem of problems)
      if (!before?.problems.some(known => isDeepStrictEqual(known, problem)))
        this.#report({ pod: nameOf(pod), ...problem })
    this.changes.emit({ kind: isKnown ? 'changed' : 'added', pod })
  }

  #describe(facts: PodFacts): Pick<Known, 'pod' | 'problems'> {
    const rules = this.#rules
    const identity = identityOf(rules, facts)
    if (typeof identity !== 'string')
      return { pod: { ...facts, identity: undefined, dnsNames: [] }, problems: identity ? [identity] : [] }
    const { names, problems } = dnsNamesOf(rules, facts)
    return { pod: { ...facts, identity, dnsNames: names }, problems }
  }

  /**
   * Why a new pod is refused. Anybody who may make pods may write the annotations of a mirror, so a mirror never takes the
   * UID of another pod, and gives up its UID to a pod that really has it.
   */
  #refusal({ uid }: PodFacts, isMirror: boolean): string | undefined {
    const holder = this.#byUid.get(uid)
    const holds = holder === undefined ? undefined : this.#objects.get(holder)
    if (holder !== undefined && holds) {
      if (isMirror || !holds.isMirror) return `${nameOf(holds.pod)} has its UID ${uid} already`
      this.#remove(holder)
    }
    return this.#objects.size < MAX_PODS ? undefined : `this node has more than ${MAX_PODS} pods`
  }

  #remove(object: string): void {
    this.#refused.delete(object)
    const known = this.#objects.get(object)
    if (!known) return
    this.#objects.delete(object)
    this.#byUid.delete(known.pod.uid)
    this.changes.emit({ kind: 'removed', pod: known.pod })
  }

  #refuse(object: string, problem: PodProblem): void {
    if (this.#refused.get(object) === problem.reason) return
    if (this.#refused.size >= MAX_PODS) return
    this.#refused.set(object, problem.reason)
    this.#report(problem)
  }
}

function nameOf({ namespace, name }: PodFacts): string {
  return `${namespace}/${name}`
}

/** The pods of a node, watched at a stand-in of the API server, on a clock that the test moves. */
import type { TestContext } from 'node:test'
import { ApiConnection, ObjectsApi, ObjectWatcher, PodLogin, type WatchState } from '@livery/ca-plugins/kubernetes-api'
import { FakeClock } from '@livery/core/testing'
import { TemporaryFolder } from '@livery/test-support'
import { parseDnsTemplate, parseIdentityTemplate } from '../src/config/identity-template.ts'
import { parseLabelSelector } from '../src/config/label-selector.ts'
import { NodePods, type PodProblem, podsOf } from '../src/kubernetes/node-pods.ts'
import type { PodRules } from '../src/kubernetes/pod-rules.ts'
import { NODE, PodApiServer } from './pod-api-server.ts'

export interface RulesInit {
  readonly identity?: string
  readonly dnsNames?: readonly string[]
  readonly selector?: string
  readonly only?: readonly string[]
  readonly except?: readonly string[]
}

/** The defaults of the configuration, but for `init`. */
export function podRules(init: RulesInit = {}): PodRules {
  const { identity = 'spiffe://{trustDomain}/ns/{namespace}/sa/{serviceAccount}' } = init
  const { selector: text = 'livery.dev/inject=true', only = [], except = [] } = init
  const { dnsNames = [] } = init
  const trustDomain = 'cluster.local'
  const template = parseIdentityTemplate(identity, trustDomain)
  const selector = parseLabelSelector(text)
  if ('problem' in template || !selector) throw new TypeError('unusable rules')
  const names = dnsNames
    .map(text => parseDnsTemplate(text, trustDomain))
    .flatMap(each => ('problem' in each ? [] : [each]))
  return { trustDomain, template, dnsNames: names, selector, namespaces: { only, except } }
}

/** A table without an API server, and what it reports. */
export function podTable(init: RulesInit = {}): { readonly pods: NodePods; readonly problems: PodProblem[] } {
  const problems: PodProblem[] = []
  const onProblem = (problem: PodProblem) => void problems.push(problem)
  return { pods: new NodePods(NODE, podRules(init), onProblem), problems }
}

export interface WatchedPods {
  readonly server: PodApiServer
  readonly clock: FakeClock
  readonly pods: NodePods
  readonly connection: ApiConnection
  readonly watcher: ObjectWatcher<unknown>
  readonly states: readonly WatchState[]
  /** The names of the pods that are known, sorted. */
  names(): readonly string[]
  /** Resolves as soon as it is so after a change of the pods or of the state. */
  until(isSo: () => boolean): Promise<void>
}

export async function watchPods(
  t: TestContext,
  { prepare, rules = {} }: { readonly prepare?: (server: PodApiServer) => void; readonly rules?: RulesInit } = {},
): Promise<WatchedPods> {
  const server = await PodApiServer.start()
  const directory = new TemporaryFolder()
  await server.mountAccount(directory.path)
  prepare?.(server)
  const clock = new FakeClock(Date.now())
  const { pods } = podTable(rules)
  const states: WatchState[] = []
  const waiting = new Set<() => void>()
  const wake = () => {
    for (const look of waiting) look()
  }
  Object.assign(process.env, server.environment)
  const login = new PodLogin('', directory.path)
  const connection = new ApiConnection(login, clock)
  const api = new ObjectsApi({ ...podsOf(NODE), connection, clock })
  const onState = (state: WatchState) => {
    states.push(state)
    wake()
  }
  pods.changes.subscribe(wake)
  const watcher = new ObjectWatcher({ api, table: pods, clock, random: () => 0.4, onState })
  t.after(async () => {
    await watcher[Symbol.asyncDispose]()
    await connection[Symbol.asyncDispose]()
    await server[Symbol.asyncDispose]()
    directory[Symbol.dispose]()
  })
  return {
    server,
    clock,
    pods,
    connection,
    watcher,
    states,
    names: () => [...pods.all()].map(({ name }) => name).sort(),
    async until(isSo) {
      while (!isSo())
        await new Promise<void>(resolve => {
          const look = () => {
            waiting.delete(look)
            resolve()
          }
          waiting.add(look)
        })
    },
  }
}
